//! The watcher of kube-rs, which most Rust controllers are built on.

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject};
use kube::runtime::watcher::{Config, Error, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube_reports_clients_rust::{Result, Stack, create};

/// What the stream says next, in one word and the name of the object.
async fn next(
    stream: &mut (impl Stream<Item = std::result::Result<Event<DynamicObject>, Error>> + Unpin),
) -> String {
    let event = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
    match event
        .expect("an event within a minute")
        .expect("a stream without an end")
    {
        Ok(event) => event.to_string(),
        Err(Error::WatchError(status)) => format!("WatchError({})", status.code),
        Err(error) => format!("{error:?}"),
    }
}

// W-50: a watch from a version that is too old is told so once, and the watcher lists again.
async fn lists_again_after_an_expired_version(stack: &mut Stack) -> Result<()> {
    let api = stack.reports("rust-1").await?;
    create(&api, "old").await?;
    let mut stream = pin!(watcher(api.clone(), Config::default()));
    for event in ["Init", "InitApply(old)", "InitDone"] {
        assert_eq!(next(&mut stream).await, event);
    }
    // The watch begins when the next event is asked for.
    api.delete("old", &DeleteParams::default()).await?;
    create(&api, "new").await?;
    stack.run("compact").await?;
    for event in ["WatchError(410)", "Init", "InitApply(new)", "InitDone"] {
        assert_eq!(next(&mut stream).await, event);
    }
    create(&api, "newer").await?;
    assert_eq!(next(&mut stream).await, "Apply(newer)");
    api.delete("new", &DeleteParams::default()).await?;
    assert_eq!(next(&mut stream).await, "Delete(new)");
    Ok(())
}

// WL-01, W-20: a watcher that has its list as a stream.
async fn streams_its_list(stack: &mut Stack) -> Result<()> {
    let api = stack.reports("rust-2").await?;
    create(&api, "a").await?;
    create(&api, "b").await?;
    let mut stream = pin!(watcher(api.clone(), Config::default().streaming_lists()));
    for event in ["Init", "InitApply(a)", "InitApply(b)", "InitDone"] {
        assert_eq!(next(&mut stream).await, event);
    }
    create(&api, "c").await?;
    assert_eq!(next(&mut stream).await, "Apply(c)");
    Ok(())
}

// W-11, LC-01: a watcher goes on where it was when its proxy is restarted, and lists once.
async fn survives_a_restart(stack: &mut Stack) -> Result<()> {
    let api = stack.reports("rust-3").await?;
    let mut stream = pin!(watcher(api.clone(), Config::default()).default_backoff());
    for event in ["Init", "InitDone"] {
        assert_eq!(next(&mut stream).await, event);
    }
    create(&api, "before").await?;
    assert_eq!(next(&mut stream).await, "Apply(before)");
    stack.run("restart 0").await?;
    let created = create(&stack.reports("rust-3").await?, "after").await?;
    loop {
        let event = next(&mut stream).await;
        if event == format!("Apply({})", created.name_any()) {
            return Ok(());
        }
        // The proxy may not answer yet, or answer 503 until it knows what it serves.
        assert!(
            event.starts_with("WatchStartFailed") || event.starts_with("WatchFailed"),
            "{event}"
        );
    }
}

// One stack for all of them.
#[tokio::test]
async fn watchers() -> Result<()> {
    let mut stack = Stack::start().await?;
    lists_again_after_an_expired_version(&mut stack).await?;
    streams_its_list(&mut stack).await?;
    survives_a_restart(&mut stack).await?;
    stack.end().await
}
