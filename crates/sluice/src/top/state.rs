//! What is on the screen. Pure: answers and keys in, rows out.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sluice_agent::ServiceConnections;
use sluice_agent::status::Status;
use sluice_node::chain;
use sluice_plan::inventory::{ServiceDetail, ServiceSummary};

/// Rates that are remembered for the line in the header.
const HISTORY: usize = 60;
/// Rows that a page moves.
const PAGE: usize = 10;

/// A Service, or an endpoint of it.
type Counted = (String, Option<String>);

/// One answer of the agent.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) status: Status,
    pub(super) services: Vec<ServiceSummary>,
    /// `None` where they are not counted.
    pub(super) connections: Option<Vec<ServiceConnections>>,
    pub(super) at: Instant,
}

impl Sample {
    /// Connections so far, of each Service and of each of its endpoints.
    fn totals(&self) -> HashMap<Counted, u64> {
        let mut totals: HashMap<Counted, u64> = HashMap::new();
        for it in self.connections.iter().flatten() {
            let service = format!("{}/{}", it.namespace, it.service);
            for endpoint in &it.endpoints {
                let key = (service.clone(), Some(endpoint.endpoint.clone()));
                *totals.entry(key).or_default() += endpoint.connections;
            }
            *totals.entry((service, None)).or_default() += it.connections;
        }
        totals
    }
}

/// The order of Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Without endpoints first, then those with issues.
    Trouble,
    /// Most new connections first.
    Rate,
    Name,
}

impl Sort {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Rate => "connections/s",
            Self::Name => "name",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::Trouble => Self::Rate,
            Self::Rate => Self::Name,
            Self::Name => Self::Trouble,
        }
    }
}

/// The view on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Services,
    /// One Service with its endpoints.
    Service,
    /// Everything that is wrong.
    Issues,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Show,
    /// The agent, at once.
    Ask,
    Quit,
}

/// The last answer, and the state of the view.
#[derive(Debug)]
pub(super) struct Top {
    pub(super) sample: Option<Sample>,
    pub(super) detail: Option<ServiceDetail>,
    /// New connections a second; `None` before there are two samples, or where nobody counts.
    rates: Option<HashMap<Counted, f64>>,
    /// Of all Services together, the last one last.
    pub(super) history: VecDeque<f64>,
    /// Why there is no newer sample.
    pub(super) error: Option<String>,
    pub(super) view: View,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Keys go to the filter.
    pub(super) typing: bool,
    /// The name of the chosen Service: rows move, it stays.
    chosen: Option<String>,
    /// First line of a list that is scrolled.
    pub(super) scroll: usize,
    /// `NO_COLOR` is set.
    pub(super) plain: bool,
}

impl Top {
    pub(super) fn new(plain: bool) -> Self {
        Self {
            sample: None,
            detail: None,
            rates: None,
            history: VecDeque::new(),
            error: None,
            view: View::Services,
            sort: Sort::Trouble,
            filter: String::new(),
            typing: false,
            chosen: None,
            scroll: 0,
            plain,
        }
    }

    /// A new answer. Rates are those since the one before; an agent that started anew has counted less.
    pub(super) fn take(&mut self, sample: Sample) {
        self.error = None;
        let before = self
            .sample
            .as_ref()
            .filter(|it| it.status.agent.pid == sample.status.agent.pid);
        if let Some(before) = before.filter(|it| it.connections.is_some()) {
            let seconds = sample.at.duration_since(before.at).as_secs_f64();
            let earlier = before.totals();
            let rate = |(key, total): (Counted, u64)| {
                let new = total.saturating_sub(earlier.get(&key).copied().unwrap_or_default());
                (key, new as f64 / seconds.max(0.001))
            };
            let rates: HashMap<Counted, f64> = sample.totals().into_iter().map(rate).collect();
            let services = rates.iter().filter(|((_, endpoint), _)| endpoint.is_none());
            self.history.push_back(services.map(|(_, rate)| rate).sum());
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
            self.rates = Some(rates);
        }
        self.sample = Some(sample);
    }

    /// The Service that is looked at, as it is now.
    pub(super) fn take_detail(&mut self, detail: Option<ServiceDetail>) {
        if self.view == View::Service {
            self.detail = detail;
        }
    }

    /// The agent does not answer; what it said last stays on the screen.
    pub(super) fn fail(&mut self, error: &anyhow::Error) {
        self.error = Some(chain(error.as_ref()));
    }

    /// The Service that is looked at.
    pub(super) fn opened(&self) -> Option<&str> {
        self.chosen
            .as_deref()
            .filter(|_| self.view == View::Service)
    }

    /// New connections a second of a Service.
    pub(super) fn rate(&self, service: &str) -> Option<f64> {
        self.rate_of(&(service.to_owned(), None))
    }

    /// New connections a second of an endpoint.
    pub(super) fn endpoint_rate(&self, service: &str, endpoint: &str) -> Option<f64> {
        self.rate_of(&(service.to_owned(), Some(endpoint.to_owned())))
    }

    fn rate_of(&self, counted: &Counted) -> Option<f64> {
        let rates = self.rates.as_ref()?;
        Some(rates.get(counted).copied().unwrap_or_default())
    }

    /// The Services that the filter leaves, in order.
    pub(super) fn rows(&self) -> Vec<&ServiceSummary> {
        let all = self.sample.iter().flat_map(|it| &it.services);
        let mut rows: Vec<_> = all.filter(|it| it.name.contains(&self.filter)).collect();
        match self.sort {
            Sort::Trouble => rows.sort_by_key(|it| (!it.is_dead, it.issues.is_empty(), &it.name)),
            Sort::Rate => rows.sort_by(|a, b| {
                let rate = |it: &ServiceSummary| self.rate(&it.name).unwrap_or_default();
                rate(b)
                    .total_cmp(&rate(a))
                    .then_with(|| a.name.cmp(&b.name))
            }),
            Sort::Name => rows.sort_by_key(|it| &it.name),
        }
        rows
    }

    /// The row of the chosen Service; the first one where it is not shown.
    pub(super) fn selected(&self) -> usize {
        let chosen = self.chosen.as_deref();
        let rows = self.rows();
        let at = rows.iter().position(|it| Some(&*it.name) == chosen);
        at.unwrap_or_default()
    }

    /// Everything that is wrong, a line each.
    pub(super) fn issues(&self) -> Vec<String> {
        let Some(status) = self.sample.as_ref().map(|it| &it.status) else {
            return Vec::new();
        };
        let issues = status.issues.iter().map(ToString::to_string);
        let problems = status.problems.iter().map(ToString::to_string);
        let refused = status.refused.iter().map(ToString::to_string);
        let unserved = status.unserved.iter().map(|it| format!("not served: {it}"));
        issues
            .chain(problems)
            .chain(refused)
            .chain(unserved)
            .collect()
    }

    /// A key is pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Next::Quit;
        }
        if self.typing {
            self.type_key(key.code);
            return Next::Show;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => {
                self.view = View::Services;
                self.typing = true;
            }
            KeyCode::Char('i') => self.open(View::Issues),
            KeyCode::Enter if self.view == View::Services => {
                let row = self.rows().get(self.selected()).map(|it| it.name.clone());
                if row.is_some() {
                    self.chosen = row;
                    self.open(View::Service);
                    return Next::Ask;
                }
            }
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => match self.view {
                View::Services => self.filter.clear(),
                View::Service | View::Issues => self.open(View::Services),
            },
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-(PAGE.cast_signed())),
            KeyCode::PageDown => self.move_by(PAGE.cast_signed()),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            _ => {}
        }
        Next::Show
    }

    fn type_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(it) => self.filter.push(it),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = false;
            }
            KeyCode::Enter => self.typing = false,
            _ => {}
        }
    }

    fn open(&mut self, view: View) {
        self.view = view;
        self.scroll = 0;
        self.detail = None;
    }

    fn move_by(&mut self, rows: isize) {
        if self.view != View::Services {
            self.scroll = self
                .scroll
                .saturating_add_signed(rows)
                .min(self.lines().saturating_sub(1));
            return;
        }
        let last = self.rows().len().saturating_sub(1);
        let at = self.selected().saturating_add_signed(rows).min(last);
        self.chosen = self.rows().get(at).map(|it| it.name.clone());
    }

    /// Lines of a list that is scrolled.
    fn lines(&self) -> usize {
        match self.view {
            View::Issues => self.issues().len(),
            View::Services | View::Service => {
                let ports = self.detail.iter().flat_map(|it| &it.ports);
                ports.map(|it| it.endpoints.len() + 1).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests;
