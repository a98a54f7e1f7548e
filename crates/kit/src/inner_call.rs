//! Calls of this API's own routes in the name of a caller, for the tools of agents. They have the same
//! handlers, checks and answers as requests from outside, except for features of a connection.

use crate::answer::Outcome;
use crate::answer_room::{reserve_or_refuse, with_room};
use crate::authenticate::Admission;
use crate::caller::Caller;
use crate::commit::write;
use crate::refusal::Refusal;
use crate::request::{Effects, ReceivedRequest, Request, RunWriter};
use crate::route::Handler;
use crate::serve;
use crate::table::{MatchedRoutes, Table, allowed};
use http::{HeaderMap, Method};
use resource::{JsonBody, Query};
use std::sync::Arc;
use store::Conn;

/// A call of a route: its method, path, query string and body. The body is `null` if there is none.
pub struct InnerCall {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub body: JsonBody,
}

/// The caller of a call, and the admission by which the transaction of a write reads the caller again.
#[derive(Clone)]
pub struct AdmittedCaller {
    pub caller: Arc<Caller>,
    pub admission: Admission,
}

/// The function that runs in the transaction of a write and calls the route's handler.
pub type WriteWrapper = Arc<dyn Fn(&Request, &mut Conn, fn(&Request, &mut Conn) -> Outcome) -> Outcome + Send + Sync>;

/// Makes a call as part of a request, with the request's address. `wrapper` wraps the handler of a write.
pub async fn call(
    outer: &Request,
    admitted_caller: &AdmittedCaller,
    table: &'static Table,
    call: InnerCall,
    wrapper: WriteWrapper,
) -> Outcome {
    let MatchedRoutes { routes, path_values } = table.find(&call.path).ok_or_else(Refusal::not_found)?;
    let route = routes.iter().copied().find(|route| route.method == call.method);
    let route = route.ok_or_else(|| Refusal::method(&call.method, &allowed(routes)))?;
    admitted_caller.caller.fulfils(route.requirement(), outer.now)?;
    let request_parts = ReceivedRequest {
        app: outer.app.clone(),
        build: outer.build.clone(),
        requirement: route.requirement(),
        declared_names: route.declared_names(),
        path_values,
        path: call.path,
        query: Query::parse(&call.query),
        body: Ok(call.body),
        room: None,
        answer_room: outer.answer_room.hand_on(),
        address: outer.address,
        origin: outer.origin.clone(),
        method: call.method,
        headers: HeaderMap::new(),
        now: outer.now,
        admission: Some(admitted_caller.admission),
        effects: Effects::default(),
        idempotency: None,
        run: None,
    };
    let request = Arc::new(Request::new(Some(admitted_caller.caller.clone()), request_parts));
    let outcome = match route.handler {
        Handler::Write(handler) => {
            let writing = request.clone();
            let call = async move {
                let attempt = || {
                    let wrapper = wrapper.clone();
                    write(&writing, move |request, conn| reserve_or_refuse(request, wrapper(request, conn, handler)))
                };
                with_room(&writing, attempt).await
            };
            serve::detached(call).await
        }
        _ => serve::run(route, request.clone(), None).await,
    };
    outer.answer_room.take_back(&request.answer_room);
    outcome
}

/// Makes a call on the open connection of a transaction, in the name of the run of a sequence. The call has the rights of
/// `caller`, which the transaction has read. Its effects become those of `outer`, and follow the commit.
pub fn call_for_run(
    outer: &Request,
    conn: &mut Conn,
    (caller, run): (&Arc<Caller>, &Arc<RunWriter>),
    table: &'static Table,
    call: InnerCall,
) -> Outcome {
    let MatchedRoutes { routes, path_values } = table.find(&call.path).ok_or_else(Refusal::not_found)?;
    let route = routes.iter().copied().find(|route| route.method == call.method);
    let route = route.ok_or_else(|| Refusal::method(&call.method, &allowed(routes)))?;
    caller.fulfils(route.requirement(), outer.now)?;
    let received = ReceivedRequest {
        app: outer.app.clone(),
        build: outer.build.clone(),
        requirement: route.requirement(),
        declared_names: route.declared_names(),
        path_values,
        path: call.path,
        query: Query::parse(&call.query),
        body: Ok(call.body),
        room: None,
        answer_room: outer.answer_room.hand_on(),
        address: outer.address,
        origin: outer.origin.clone(),
        method: call.method,
        headers: HeaderMap::new(),
        now: outer.now,
        admission: None,
        effects: Effects::default(),
        idempotency: None,
        run: Some(run.clone()),
    };
    let request = Request::new(Some(caller.clone()), received);
    let outcome = match route.handler {
        Handler::Write(handler) | Handler::Read(handler) | Handler::ShortRead(handler) => handler(&request, conn),
        Handler::ReadInOneStatement(_, handler) => handler(&request, conn),
        Handler::NoDatabase(_) | Handler::Async(_) | Handler::Upload(..) => Err(Refusal::not_found()),
    };
    outer.answer_room.take_back(&request.answer_room);
    outer.effects.merge(&request.effects);
    outcome
}
