//! The HTTP clients of a bucket. The library's own client would bring HTTP/2, which no other part of the program uses.

use http_body_util::BodyExt;
use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use reqwest::{Body, Client, NoProxy, Proxy, Request, redirect};
use std::pin::Pin;
use std::time::Duration;

const MAX_CONNECT_TIME: Duration = Duration::from_secs(5);

/// Creates a client with the connection settings of a bucket. It ends an answer that brings no byte for `max_silence`.
pub(super) fn client(bucket: &AmazonS3Builder, max_silence: Option<Duration>) -> reqwest::Result<Client> {
    let value = |key| bucket.get_config_value(&AmazonS3ConfigKey::Client(key));
    let is_on = |key| value(key).is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1");
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .connect_timeout(MAX_CONNECT_TIME)
        .https_only(!is_on(ClientConfigKey::AllowHttp))
        .tls_danger_accept_invalid_certs(is_on(ClientConfigKey::AllowInvalidCertificates));
    if let Some(silence) = max_silence {
        builder = builder.read_timeout(silence);
    }
    if let Some(proxy) = value(ClientConfigKey::ProxyUrl) {
        let excludes = value(ClientConfigKey::ProxyExcludes).unwrap_or_default();
        builder = builder.proxy(Proxy::all(proxy)?.no_proxy(NoProxy::from_string(&excludes)));
    }
    builder.build()
}

/// Sends the library's calls with a client of the program.
#[derive(Clone, Debug)]
pub(super) struct BucketConnector(pub(super) Client);

impl HttpConnector for BucketConnector {
    fn connect(&self, _: &object_store::ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for BucketConnector {
    fn call<'service, 'call>(
        &'service self,
        call: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'call>>
    where
        'service: 'call,
        Self: 'call,
    {
        Box::pin(async move {
            let (parts, body) = call.into_parts();
            let address =
                parts.uri.to_string().parse().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            let mut request = Request::new(parts.method, address);
            *request.headers_mut() = parts.headers;
            *request.body_mut() = Some(match body.as_bytes() {
                Some(bytes) => Body::from(bytes.clone()),
                None => Body::wrap(body),
            });
            let answer: http::Response<Body> = self.0.execute(request).await.map_err(failure)?.into();
            Ok(answer.map(|body| HttpResponseBody::new(body.map_err(failure))))
        })
    }
}

/// Translates an error. Its address is removed, since it may be signed. The library sends a call that was interrupted again if that
/// changes nothing.
fn failure(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_builder() {
        HttpErrorKind::Unknown
    } else {
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error.without_url())
}
