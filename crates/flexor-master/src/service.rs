//! The gRPC services of a master, one file each.

mod calls;
mod control;
mod data_calls;
mod link;
mod servers;
mod session;

use flexor_store::sidecar::MAX_LINK_MESSAGE;
use flexor_wire::master::v1::control_server::ControlServer;
use flexor_wire::master::v1::master_server::MasterServer;
use flexor_wire::master::v1::ps_membership_server::PsMembershipServer;
use flexor_wire::master::v1::store_link_server::StoreLinkServer;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status};

use crate::job::Job;

/// The longest message of a node or a controller, in bytes.
const MAX_MESSAGE: usize = 16 << 20;

/// All services of a job. Each call is checked for the job's token.
pub(crate) fn routes(job: &Job) -> Routes {
    let check = |job: Job| move |request: Request<()>| check_token(&job, request);
    let master = MasterServer::new(session::MasterService::new(job.clone())).max_decoding_message_size(MAX_MESSAGE);
    let control = ControlServer::new(control::ControlService::new(job.clone())).max_decoding_message_size(MAX_MESSAGE);
    let link = StoreLinkServer::new(link::LinkService::new(job.clone()))
        .max_decoding_message_size(MAX_LINK_MESSAGE)
        .max_encoding_message_size(MAX_LINK_MESSAGE);
    let servers =
        PsMembershipServer::new(servers::ServersService::new(job.clone())).max_decoding_message_size(MAX_MESSAGE);
    Routes::new(InterceptedService::new(master, check(job.clone())))
        .add_service(InterceptedService::new(control, check(job.clone())))
        .add_service(InterceptedService::new(link, check(job.clone())))
        .add_service(InterceptedService::new(servers, check(job.clone())))
}

fn check_token(job: &Job, request: Request<()>) -> Result<Request<()>, Status> {
    match job.token() {
        Some(token) => token.check(request),
        None => Ok(request),
    }
}
