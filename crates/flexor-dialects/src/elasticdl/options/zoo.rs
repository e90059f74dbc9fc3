//! The options of `elasticdl zoo`. `zoo push` has none.

use super::{
    group::option_group,
    spec::{
        ALWAYS,
        Fate::{Kept, Unused},
        Presence::{Optional, Required},
        SINCE_HEAD,
    },
};
use crate::elasticdl::command_line::CommandName::{self, ZooBuild, ZooInit};

const INIT: &[CommandName] = &[ZooInit];

option_group! {
    /// `zoo init`: what the image of a model zoo is made from.
    pub struct ZooInitOptions {
        /// Base image of the zoo's image
        base_image: String = "python:3.6", INIT, Optional, ALWAYS, Kept;
        /// Extra package index; only the public one if empty
        extra_pypi_index: String = "", INIT, Optional, ALWAYS, Kept;
        /// Python file that modifies pods
        cluster_spec: String =
            "", INIT, Optional, ALWAYS, Unused("Python files are not executed; use --cluster_spec_json on the job instead");
        /// Directory of wheels to install instead of the released packages
        local_pkg_dir: String = "", INIT, Optional, SINCE_HEAD, Kept;
        /// Directory that becomes the model zoo of the image
        model_zoo: String = ".", INIT, Optional, SINCE_HEAD, Kept;
    }
}

option_group! {
    /// `zoo build`: what the image is called.
    pub struct ZooBuildOptions {
        /// Name and tag of the image
        image: String = "", &[ZooBuild], Required, ALWAYS, Kept;
    }
}
