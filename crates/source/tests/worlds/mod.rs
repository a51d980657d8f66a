//! One list of stories for both sources: the same objects lead to the same state, whether they
//! come from a folder or from an API server.

mod stories;
mod world;

use crate::support::View;
use stories::STORIES;
use world::{Folder, Server, World};

/// Runs every story in a world; returns the state after each step.
fn play<W: World>() -> Vec<View> {
    let mut views = Vec::new();
    for (name, steps) in STORIES {
        let (mut world, mut view) = W::start();
        view.until("synced", |it| it.synced == 1);
        for (number, step) in steps.iter().enumerate() {
            step.done_to(&mut world);
            let what = format!("{name}, step {number}");
            view.until(&what, |it| {
                it.brief() == step.objects && it.problems.len() == step.problems
            });
        }
        let deleted: Vec<&str> = steps.iter().flat_map(|it| it.deleted).copied().collect();
        assert_eq!(view.deleted, deleted, "{name}");
        assert_eq!(view.synced, 1, "{name}");
        views.push(view);
    }
    views
}

#[test]
fn both_sources_say_the_same() {
    let (folder, server) = (play::<Folder>(), play::<Server>());
    for ((name, _), (folder, server)) in STORIES.iter().zip(folder.iter().zip(&server)) {
        assert_eq!(folder.objects, server.objects, "{name}");
    }
}
