//! Scripts of pages. The policy of a page permits only the script that the page contains, by its hash.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, header};
use kit::answer::Answer;
use sha2::{Digest, Sha256};

/// A script of a page.
pub struct PageScript {
    pub text: &'static str,
    /// Further directives of the page's policy, each after `; `.
    pub directives: &'static str,
}

impl PageScript {
    /// Returns the element with the script.
    pub fn element(&self) -> String {
        format!("<script>{}</script>", self.text)
    }

    /// Permits the script on its page.
    pub fn permit(&self, answer: &mut Answer) {
        let hash = STANDARD.encode(Sha256::digest(self.text));
        let with_script = |(name, value): &mut (HeaderName, HeaderValue)| {
            if *name == header::CONTENT_SECURITY_POLICY
                && let Ok(policy) = value.to_str()
                && let Ok(policy) =
                    HeaderValue::try_from(format!("{policy}; script-src 'sha256-{hash}'{}", self.directives))
            {
                *value = policy;
            }
        };
        answer.headers.iter_mut().for_each(with_script);
    }
}
