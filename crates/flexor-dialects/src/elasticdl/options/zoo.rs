//! The options of `elasticdl zoo`. `zoo push` has none.

use crate::elasticdl::{
    command::CommandName::{self, ZooBuild, ZooInit},
    option::{
        ALWAYS,
        Fate::{Kept, Unused},
        Presence::{Optional, Required},
        SINCE_HEAD,
    },
    option_group::option_group,
};

const INIT: &[CommandName] = &[ZooInit];

option_group! {
    /// `zoo init`: what the image of a model zoo is made from.
    pub struct ZooInitOptions {
        /// Image that the zoo's image builds on
        base_image: String = "python:3.6", INIT, Optional, ALWAYS, Kept;
        /// Package index beside pip's own; the public one when empty
        extra_pypi_index: String = "", INIT, Optional, ALWAYS, Kept;
        /// Python file that changes pods
        cluster_spec: String =
            "", INIT, Optional, ALWAYS, Unused("Python is not run here; give --cluster_spec_json to the job instead");
        /// Folder with wheels to install instead of the released packages
        local_pkg_dir: String = "", INIT, Optional, SINCE_HEAD, Kept;
        /// Folder that becomes the model zoo of the image
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
