//! The book: what `docs/SUMMARY.md` lists, checked and laid out for mdBook.
//!
//! Pages stay where they belong, some beside the code that they describe. mdBook wants all of them in
//! one folder, so [`lay_out`] copies them, with every file that they link to, into a folder with the same
//! paths as the repository: links lead to the same page on GitHub and in the book.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::page::Page;

const SUMMARY: &str = "docs/SUMMARY.md";

/// Broken links and pictures of all Markdown files, and pages that the book lacks: one line each.
///
/// # Errors
///
/// A file of the tree cannot be read.
pub(crate) fn check(root: &Path) -> io::Result<Vec<String>> {
    let pages = pages(root)?;
    let chapters = chapters(&pages);
    let mut problems = Vec::new();
    for (path, page) in &pages {
        let shown = path.display();
        for link in &page.links {
            let (target, anchor) = target(path, link);
            let there = pages.get(&target);
            if !root.join(&target).exists() {
                problems.push(format!("{shown}: no file for the link {link}"));
            } else if anchor.is_some_and(|it| !there.is_some_and(|page| has(page, it))) {
                problems.push(format!("{shown}: no heading for the link {link}"));
            } else if chapters.contains(path) && there.is_some() && !chapters.contains(&target) {
                problems.push(format!("{shown}: {link} is not in {SUMMARY}"));
            }
        }
        for (picture, alternative) in &page.pictures {
            if !root.join(target(path, picture).0).is_file() {
                problems.push(format!("{shown}: no picture {picture}"));
            } else if alternative.trim().is_empty() {
                problems.push(format!("{shown}: {picture} has no alternative text"));
            }
        }
        let is_page = path.starts_with("docs") && path != Path::new(SUMMARY);
        if is_page && !chapters.contains(path) {
            problems.push(format!("{shown}: not in {SUMMARY}"));
        }
    }
    Ok(problems)
}

/// Copies the pages and what they link to into `folder`, which is replaced, with mdBook's `book.toml`.
///
/// # Errors
///
/// A file cannot be read or written.
pub(crate) fn lay_out(root: &Path, folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(folder.join("src"))?,
    }
    fs::copy(root.join("docs/book.toml"), folder.join("book.toml"))?;
    let pages = pages(root)?;
    let mut summary = fs::read_to_string(root.join(SUMMARY))?;
    for link in pages
        .get(Path::new(SUMMARY))
        .iter()
        .flat_map(|it| &it.links)
    {
        let page = target(Path::new(SUMMARY), link).0;
        summary = summary.replace(&format!("]({link})"), &format!("]({})", page.display()));
    }
    fs::write(folder.join("src/SUMMARY.md"), summary)?;
    for chapter in chapters(&pages) {
        copy(root, folder, &chapter)?;
        let page = pages.get(&chapter).into_iter();
        let targets = page.flat_map(|it| it.links.iter().chain(it.pictures.iter().map(|it| &it.0)));
        for link in targets {
            let target = target(&chapter, link).0;
            if root.join(&target).is_dir() {
                copy_folder(root, folder, &target)?;
            } else if !pages.contains_key(&target) {
                copy(root, folder, &target)?;
            }
        }
    }
    Ok(())
}

fn copy(root: &Path, folder: &Path, path: &Path) -> io::Result<()> {
    let to = folder.join("src").join(path);
    fs::create_dir_all(to.parent().unwrap_or(folder))?;
    fs::copy(root.join(path), to)?;
    Ok(())
}

/// Copies the files of a folder to which a page links, with a list of them for the browser.
fn copy_folder(root: &Path, folder: &Path, path: &Path) -> io::Result<()> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(root.join(path))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
            copy(root, folder, &path.join(entry.file_name()))?;
        }
    }
    let item = |name: &String| {
        let page = name.strip_suffix(".md").map(|it| format!("{it}.html"));
        format!(
            "<li><a href=\"{}\">{name}</a>\n",
            page.as_ref().unwrap_or(name)
        )
    };
    let list: String = names.iter().map(item).collect();
    let title = path.display();
    fs::write(
        folder.join("src").join(path).join("index.html"),
        format!("<!DOCTYPE html>\n<title>{title}</title>\n<ul>\n{list}</ul>\n"),
    )
}

/// Every Markdown file of the tree, by its path in the tree.
fn pages(root: &Path) -> io::Result<BTreeMap<PathBuf, Page>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let is_ours = name != "target" && !name.to_string_lossy().starts_with('.');
            if entry.file_type()?.is_dir() && is_ours {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                let page = Page::parse(&fs::read_to_string(&path)?);
                let path = path.strip_prefix(root).unwrap_or(&path);
                found.insert(path.to_owned(), page);
            }
        }
    }
    Ok(found)
}

/// The pages that the summary lists.
fn chapters(pages: &BTreeMap<PathBuf, Page>) -> BTreeSet<PathBuf> {
    let summary = pages.get(Path::new(SUMMARY));
    let links = summary.into_iter().flat_map(|it| &it.links);
    let chapters = links.map(|it| target(Path::new(SUMMARY), it).0);
    chapters.collect()
}

/// The path in the tree to which a link of `page` leads, and the anchor there.
fn target<'l>(page: &Path, link: &'l str) -> (PathBuf, Option<&'l str>) {
    let (file, anchor) = match link.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (link, None),
    };
    if file.is_empty() {
        return (page.to_owned(), anchor);
    }
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    (path, anchor)
}

fn has(page: &Page, anchor: &str) -> bool {
    page.anchors.iter().any(|it| it == anchor)
}

#[cfg(test)]
mod tests;
