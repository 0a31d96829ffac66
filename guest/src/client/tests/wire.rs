//! A wire whose ends the test holds, and an office that runs calls over it and polls only who was woken.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::super::{Client, Listing, Transport};
use crate::execution::{Failed, ToolCall, ToolResult};
use crate::naming::NamingStyle;
use crate::types::{Failure, Phase, WaitRange};

/// What the test lets a wish come to.
pub type Answer = Result<String, Failed>;

/// A failure.
pub fn failed(failure: Failure, phase: Phase) -> Answer {
    Err(Failed { failure, phase })
}

/// What a server with these tools answers.
pub fn tools(names: &[&str]) -> Answer {
    let tools: Vec<String> = names.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
    Ok(format!(r#"{{"tools":[{}]}}"#, tools.join(",")))
}

/// All that was wished for and not answered, in order.
#[derive(Clone, Debug, Default)]
pub struct Wire(Rc<RefCell<Vec<Rc<Wish>>>>);

#[derive(Debug, Default)]
struct Wish {
    words: String,
    told: Cell<bool>,
    dropped: Cell<bool>,
    answer: RefCell<Option<Answer>>,
    waker: RefCell<Option<Waker>>,
}

/// Notes that nobody waits for it any more.
struct Waiting(Rc<Wish>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dropped.set(true);
    }
}

impl Wire {
    async fn wish(&self, words: String) -> Answer {
        let wish = Rc::new(Wish { words, ..Wish::default() });
        self.0.borrow_mut().push(Rc::clone(&wish));
        let waiting = Waiting(wish);
        poll_fn(|context| match waiting.0.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                *waiting.0.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

impl Transport for Wire {
    async fn request(&self, server: &str, method: &str, params: String) -> Result<String, Failed> {
        self.wish(format!("{server} {method} {params}")).await
    }

    async fn reconnect(&self, server: &str) -> Result<(), Failed> {
        self.wish(format!("{server} reconnect")).await.map(drop)
    }

    async fn wait(&self, range: WaitRange) {
        let _ = self.wish(format!("wait {} {}", range.min_ms, range.max_ms)).await;
    }
}

/// A client and the work that it has.
pub struct Office {
    pub client: Rc<Client<Wire>>,
    wire: Wire,
    tasks: Vec<Task>,
}

struct Task {
    work: Option<Pin<Box<dyn Future<Output = Outcome>>>>,
    woken: Arc<Woken>,
    outcome: Option<Outcome>,
}

#[derive(Clone)]
enum Outcome {
    Called(Box<ToolResult>),
    Listed(Listing),
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Default for Office {
    fn default() -> Self {
        let wire = Wire::default();
        Office { client: Rc::new(Client::new(wire.clone())), wire, tasks: Vec::new() }
    }
}

impl Office {
    /// Begins a call, and says which task that is.
    pub fn execute(&mut self, id: &str, name: &str) -> usize {
        let call = ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: String::new() };
        let client = Rc::clone(&self.client);
        self.begin(Box::pin(async move { Outcome::Called(Box::new(client.execute(call).await)) }))
    }

    /// Begins to list all tools.
    pub fn list(&mut self) -> usize {
        let client = Rc::clone(&self.client);
        self.begin(Box::pin(async move { Outcome::Listed(client.list_tools(&NamingStyle::DoubleUnderscore).await) }))
    }

    fn begin(&mut self, work: Pin<Box<dyn Future<Output = Outcome>>>) -> usize {
        self.tasks.push(Task { work: Some(work), woken: Arc::new(Woken(AtomicBool::new(true))), outcome: None });
        self.tasks.len() - 1
    }

    /// Polls whoever was woken until nobody is, and says what was wished for meanwhile.
    pub fn run(&mut self) -> Vec<String> {
        while let Some(task) = self.tasks.iter_mut().find(|task| task.woken.0.swap(false, Ordering::Relaxed)) {
            let waker = Waker::from(Arc::clone(&task.woken));
            let Some(work) = &mut task.work else { continue };
            if let Poll::Ready(outcome) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                (task.work, task.outcome) = (None, Some(outcome));
            }
        }
        let wishes = self.wire.0.borrow();
        wishes.iter().filter(|wish| !wish.told.replace(true)).map(|wish| wish.words.clone()).collect()
    }

    /// Answers one of the wishes that are open.
    pub fn answer(&mut self, open: usize, answer: Answer) {
        let wish = self.wire.0.borrow_mut().remove(open);
        *wish.answer.borrow_mut() = Some(answer);
        wish.waker.take().expect("somebody waits for it").wake();
    }

    /// Whether nobody waits any more for one of the wishes that are open.
    pub fn is_dropped(&self, open: usize) -> bool {
        self.wire.0.borrow()[open].dropped.get()
    }

    /// What a call came to.
    pub fn result(&self, task: usize) -> ToolResult {
        match &self.tasks[task].outcome {
            Some(Outcome::Called(result)) => (**result).clone(),
            _ => panic!("task {task} is no call that is over"),
        }
    }

    /// What a list came to.
    pub fn listing(&self, task: usize) -> Listing {
        match &self.tasks[task].outcome {
            Some(Outcome::Listed(listing)) => listing.clone(),
            _ => panic!("task {task} is no list that is over"),
        }
    }
}
