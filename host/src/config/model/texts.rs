//! Access to all texts of a server or of the summarizer that are expanded later.

use std::path::Path;
use std::sync::Arc;

use super::{
    FilePosition, GatewayRules, RuleConfig, ServerAuth, ServerConfig, ServerSummarizer, Settings, SummarizerKind,
    SummarizerRules, UnexpandedText,
};

impl ServerConfig {
    /// Reports whether the configuration passes the session id to the server.
    pub fn uses_session(&self) -> bool {
        self.clone().texts().iter().any(|text| text.text.contains("SESSION_ID"))
    }

    /// Returns the server without file positions, for comparison.
    #[must_use]
    pub fn without_positions(&self) -> Self {
        let mut server = self.clone();
        server.texts().into_iter().for_each(|text| text.place = no_position());
        if let ServerSummarizer::Own(summarizer) = &mut server.summarizer {
            summarizer.forget_positions();
        }
        if let Some(problem) = &mut server.problem {
            problem.place = no_position();
        }
        server.rules.iter_mut().for_each(RuleConfig::forget_positions);
        ServerConfig { place: no_position(), ..server }
    }

    pub(in crate::config) fn texts(&mut self) -> Vec<&mut UnexpandedText> {
        let mut texts: Vec<&mut UnexpandedText> = Vec::new();
        texts.extend(&mut self.command);
        texts.extend(&mut self.args);
        texts.extend(self.env.iter_mut().map(|(_, value)| value));
        texts.extend(&mut self.env_file);
        texts.extend(&mut self.working_dir);
        texts.extend(&mut self.url);
        texts.extend(self.headers.iter_mut().map(|(_, value)| value));
        let tls = &mut self.tls;
        texts.extend([&mut tls.ca, &mut tls.client_certificate, &mut tls.client_key].into_iter().flatten());
        match &mut self.auth {
            ServerAuth::None => {}
            ServerAuth::Bearer(token) => texts.push(token),
            ServerAuth::ApiKey { value, .. } => texts.push(value),
            ServerAuth::Basic { user, password } => texts.extend([user, password]),
            ServerAuth::OAuth(oauth) => texts.extend(oauth.texts()),
        }
        texts
    }
}

impl Settings {
    /// Returns the settings for servers and calls without file positions, for comparison; the gateway and its shadow
    /// are reset.
    #[must_use]
    pub fn without_positions(&self) -> Self {
        let mut settings = Settings { gateway: GatewayRules::default(), shadow: None, ..self.clone() };
        settings.summarizer.iter_mut().for_each(SummarizerRules::forget_positions);
        settings.rules.iter_mut().for_each(RuleConfig::forget_positions);
        settings.results.iter_mut().for_each(|result| result.place = no_position());
        let spill = settings.spill.iter_mut().filter_map(|spill| spill.dir.as_mut());
        let record = settings.record.iter_mut().filter_map(|record| record.dir.as_mut());
        spill.chain(record).for_each(|text| text.place = no_position());
        settings
    }
}

impl SummarizerRules {
    pub(in crate::config) fn texts(&mut self) -> Vec<&mut UnexpandedText> {
        match &mut self.how {
            SummarizerKind::Command { program, args } => std::iter::once(program).chain(args).collect(),
            SummarizerKind::Http { url, model, api_key } => [url, model].into_iter().chain(api_key).collect(),
        }
    }

    fn forget_positions(&mut self) {
        self.place = no_position();
        self.texts().into_iter().for_each(|text| text.place = no_position());
    }
}

impl RuleConfig {
    fn forget_positions(&mut self) {
        self.place = no_position();
        self.condition.iter_mut().for_each(|condition| condition.place = no_position());
    }
}

fn no_position() -> FilePosition {
    FilePosition { file: Arc::from(Path::new("")), line: 0, column: 0 }
}
