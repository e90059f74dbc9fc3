//! The pod a role is made from: the user's JSON as it is, and the few things in it that Flexor reads.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A pod template. What is read stands beside the JSON, so that nobody looks into the JSON twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PodTemplate {
    /// The user's template, with every field, known to us or not.
    pub json: Value,
    /// The container that trains.
    pub main: MainContainer,
    /// The priority class of the pods, where the template names one.
    pub priority_class: Option<String>,
    /// How long a pod may take to stop.
    pub grace_seconds: Option<u32>,
}

/// What is read of the main container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MainContainer {
    /// Its place in the list of containers.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its image; empty where the dialect lets Flexor choose.
    pub image: String,
    /// Its command.
    pub command: Vec<String>,
    /// The arguments of its command.
    pub args: Vec<String>,
    /// Its environment.
    pub env: Vec<EnvEntry>,
}

/// One environment variable of the main container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvEntry {
    /// The variable.
    pub name: String,
    /// Its value, where it is a plain text.
    pub value: Option<String>,
}
