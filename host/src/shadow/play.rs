//! One call, played to a candidate: it is told what happened for as long as it wants done what was done.

use std::sync::{Arc, Weak};

use super::candidate::{Candidate, Wanted};
use super::compare::{Difference, compare, is_same};
use crate::gate::{Story, View, plain_parts};
use crate::logic::types::Tool;
use crate::logic::types::execution::{Code, Directive, Event, Request, Settings, ToolResult};
use crate::logic::{GateHandle, Instance, LogicError, Offers};

/// Plays calls to a candidate, in an instance that is replaced when it breaks off.
pub(super) struct Player {
    candidate: Candidate,
    instance: Option<Instance>,
    gates: Vec<Opened>,
    /// The settings of the candidate's own configuration, by what they depend on.
    wanted: Vec<(View, Option<Arc<Settings>>)>,
}

/// A gate of the candidate.
struct Opened {
    settings: Arc<Settings>,
    offers: Offers,
    handle: GateHandle,
    /// Settings and offers that say the same, for sessions that come and go.
    aliases: Vec<Alias>,
}

/// What a gate of the gateway was opened with and offered.
struct Alias(Weak<Settings>, Weak<Vec<(String, Arc<[Tool]>)>>);

/// Why a candidate gave no answer.
pub(super) struct Broken(LogicError);

impl Broken {
    /// What it was, without a word of what it was given.
    pub(super) fn kind(&self) -> &'static str {
        match self.0 {
            LogicError::Fuel { .. } => "it did not come to an end",
            LogicError::Memory { .. } => "it wanted too much memory",
            LogicError::Trap { .. } => "it trapped",
            _ => "it cannot be run",
        }
    }
}

/// What a candidate decides on a call.
pub(super) struct Played {
    directives: Vec<Directive>,
    /// The live result with its answer in it, where the candidate was shown what had passed unread.
    shown: Option<Directive>,
}

impl Played {
    /// How it differs from what was decided.
    pub(super) fn difference(&self, story: &Story) -> Option<Difference> {
        match &self.shown {
            Some(shown) => {
                let before = story.directives().take(story.steps.len());
                compare(before.chain([shown]), &self.directives)
            }
            None => compare(story.directives(), &self.directives),
        }
    }
}

impl Player {
    pub(super) fn new(candidate: Candidate) -> Self {
        Player { candidate, instance: None, gates: Vec::new(), wanted: Vec::new() }
    }

    /// What the candidate decides, as far as what happened applies to it.
    pub(super) fn play(&mut self, story: &Story) -> Result<Played, Broken> {
        let played = self.try_play(story);
        if played.is_err() {
            self.instance = None;
            self.gates.clear();
        }
        played.map_err(Broken)
    }

    fn try_play(&mut self, story: &Story) -> Result<Played, LogicError> {
        let kept_out = |why: &str| Played { directives: vec![Directive::Done(refused(story, why))], shown: None };
        let Some(settings) = self.settings(story)? else { return Ok(kept_out("no such principal")) };
        // It took such settings when it was checked, so this would be its own word.
        let Some(at) = self.gate(&settings, &story.offers)? else { return Ok(kept_out("its settings are refused")) };
        let Some(instance) = &mut self.instance else { return Err(LogicError::Dead) };
        let (execution, first) = instance.begin(&self.gates[at].handle, &story.call)?;
        // Servers that this call could not use, and that the candidate would: what they offer is known from others.
        let mut lent = Vec::new();
        if let (Directive::Connect(wanted), false) = (&first, matches!(story.first, Directive::Connect(_))) {
            let known = self.gates.iter().flat_map(|gate| gate.offers.iter());
            for (server, tools) in known.filter(|(server, _)| wanted.contains(server)) {
                if !lent.contains(server) {
                    instance.offer(&self.gates[at].handle, server, tools)?;
                    lent.push(server.clone());
                }
            }
        }
        let opened = &mut self.gates[at];
        let mut run = Run { story, at: 0, played: vec![first], read: false };
        for _ in 0..story.steps.len() + FREE_STEPS {
            let Some((event, offers)) = run.next() else { break };
            if let Some(offers) = offers {
                opened.take(instance, offers)?;
            }
            run.played.push(instance.next(&execution, &event)?);
        }
        instance.drop_execution(execution)?;
        for server in lent {
            instance.withdraw(&opened.handle, &server)?;
        }
        let Run { played: mut directives, read, .. } = run;
        let shown = match (story.directives().last(), directives.last_mut()) {
            (Some(Directive::Done(live)), Some(Directive::Done(result))) if read => {
                Some(Directive::Done(with_answer(live.clone(), result, story.answer.as_deref().unwrap_or_default())))
            }
            _ => None,
        };
        Ok(Played { directives, shown })
    }

    /// The settings of the candidate's gate; none where it does not know the principal.
    fn settings(&mut self, story: &Story) -> Result<Option<Arc<Settings>>, LogicError> {
        if let Some((_, settings)) = self.wanted.iter().find(|(view, _)| *view == *story.view) {
            return Ok(settings.clone());
        }
        let instance = match &mut self.instance {
            Some(instance) => instance,
            none => none.insert(self.candidate.component.instantiate()?),
        };
        let settings = match self.candidate.settings(instance, &story.view)? {
            None => return Ok(Some(Arc::clone(&story.settings))),
            Some(Wanted::Gate(settings)) => Some(Arc::new(*settings)),
            Some(Wanted::Nobody) => None,
        };
        if self.wanted.len() == MOST_VIEWS {
            self.wanted.remove(0);
        }
        self.wanted.push(((*story.view).clone(), settings.clone()));
        Ok(settings)
    }

    /// Which gate has these settings and offers; one is opened where there is none. None where the candidate refuses.
    fn gate(&mut self, settings: &Arc<Settings>, offers: &Offers) -> Result<Option<usize>, LogicError> {
        if let Some(at) = self.gates.iter().position(|gate| gate.is_for(settings, offers)) {
            // Where there are too many, the one that was not used for longest makes room.
            if self.gates.len() == MOST_GATES {
                self.gates[at..].rotate_left(1);
                return Ok(Some(MOST_GATES - 1));
            }
            return Ok(Some(at));
        }
        if let Some(at) = self.gates.iter().position(|gate| gate.settings == *settings && gate.offers == *offers) {
            self.gates[at].remember(settings, offers);
            return Ok(Some(at));
        }
        let instance = match &mut self.instance {
            Some(instance) => instance,
            none => none.insert(self.candidate.component.instantiate()?),
        };
        // The gate of the same principal before a server changed its list, or another that was opened first.
        let old = self.gates.iter().position(|gate| Arc::ptr_eq(&gate.settings, settings));
        let old = old.or((self.gates.len() == MOST_GATES).then_some(0));
        if let Some(old) = old {
            instance.drop_gate(self.gates.remove(old).handle)?;
        }
        let Ok(handle) = instance.new_gate(settings)? else { return Ok(None) };
        for (server, tools) in offers.iter() {
            instance.offer(&handle, server, tools)?;
        }
        let (settings, offers) = (Arc::clone(settings), Arc::clone(offers));
        self.gates.push(Opened { settings, offers, handle, aliases: Vec::new() });
        Ok(Some(self.gates.len() - 1))
    }
}

impl Opened {
    fn is_for(&self, settings: &Arc<Settings>, offers: &Offers) -> bool {
        let is = |Alias(known, offered): &Alias| {
            known.as_ptr() == Arc::as_ptr(settings) && offered.as_ptr() == Arc::as_ptr(offers)
        };
        Arc::ptr_eq(&self.settings, settings) && Arc::ptr_eq(&self.offers, offers) || self.aliases.iter().any(is)
    }

    fn remember(&mut self, settings: &Arc<Settings>, offers: &Offers) {
        self.aliases.retain(|Alias(settings, offers)| settings.strong_count() > 0 && offers.strong_count() > 0);
        if self.aliases.len() < MOST_ALIASES {
            self.aliases.push(Alias(Arc::downgrade(settings), Arc::downgrade(offers)));
        }
    }

    /// Takes what servers have offered since.
    fn take(&mut self, instance: &mut Instance, offers: &Offers) -> Result<(), LogicError> {
        if Arc::ptr_eq(&self.offers, offers) {
            return Ok(());
        }
        for (server, tools) in offers.iter() {
            let known = self.offers.iter().find(|(known, _)| known == server);
            if known.is_none_or(|(_, known)| !Arc::ptr_eq(known, tools) && known != tools) {
                instance.offer(&self.handle, server, tools)?;
            }
        }
        for (server, _) in self.offers.iter().filter(|(server, _)| !offers.iter().any(|(other, _)| other == server)) {
            instance.withdraw(&self.handle, server)?;
        }
        self.offers = Arc::clone(offers);
        self.aliases.clear();
        Ok(())
    }
}

/// A call that is being played.
struct Run<'s> {
    story: &'s Story,
    /// How many of its steps the candidate has gone along with.
    at: usize,
    played: Vec<Directive>,
    /// The candidate was shown an answer that had passed unread.
    read: bool,
}

impl<'s> Run<'s> {
    /// What the candidate is told next, and what is offered before; none where the call is over for it, or was another.
    fn next(&mut self) -> Option<(Event, Option<&'s Offers>)> {
        let wants = self.played.last()?;
        if matches!(wants, Directive::Done(_)) {
            return None;
        }
        let connects = |directive: &Directive| matches!(directive, Directive::Connect(_));
        // To know more servers or fewer is no decision.
        if connects(wants) && !connects(self.done()?) {
            return Some((Event::Connected, None));
        }
        while !connects(wants) && connects(self.done()?) {
            self.at += 1;
        }
        if !connects(wants) && !is_same(self.done()?, wants) {
            return None;
        }
        let step = self.story.steps.get(self.at)?;
        let event = match (&step.event, wants) {
            (Event::Forwarded(_), Directive::Request(request)) => {
                self.read = true;
                self.unread(request)?
            }
            (event, _) => event.clone(),
        };
        self.at += 1;
        Some((event, Some(&step.offers)))
    }

    /// What was done at this step.
    fn done(&self) -> Option<&'s Directive> {
        match self.at.checked_sub(1) {
            None => Some(&self.story.first),
            Some(before) => self.story.steps.get(before).map(|step| &step.directive),
        }
    }

    /// An answer that passed unread is shown to a candidate that wants to read it; for one that would let it pass, too,
    /// nothing is left to decide.
    fn unread(&self, request: &Request) -> Option<Event> {
        let answer = self.story.answer.as_ref()?;
        let passes = request.forward_up_to.is_some_and(|most| answer.len() as u64 <= most);
        (!passes).then(|| Event::Answered(answer.clone()))
    }
}

/// The live result of a call whose answer passed unread, with the answer in it as the candidate's result has it.
fn with_answer(mut live: ToolResult, candidate: &mut ToolResult, answer: &str) -> ToolResult {
    if candidate.answer.is_some() {
        // The answer has it all.
        (candidate.text, candidate.content, candidate.structured, candidate.more) = Default::default();
        live.answer = Some(answer.to_owned());
        return live;
    }
    (live.text, live.content) = plain_parts(answer);
    // What is neither text nor a block is not taken apart here, so it is not compared.
    (candidate.structured, candidate.more) = (None, None);
    live
}

fn refused(story: &Story, why: &str) -> ToolResult {
    ToolResult {
        call_id: story.call.id.clone(),
        name: story.call.name.clone(),
        tool: None,
        text: String::new(),
        content: Vec::new(),
        structured: None,
        more: None,
        answer: None,
        is_error: true,
        code: Code::NotAllowed,
        attempts: 0,
        truncated: false,
        trace: vec![why.to_owned()],
    }
}

/// How often a candidate may ask for servers that the call had no need of.
const FREE_STEPS: usize = 4;
/// How many gates are kept open.
const MOST_GATES: usize = 32;
const MOST_VIEWS: usize = 256;
const MOST_ALIASES: usize = 1024;
