//! One test for each rule of the renderer.

use std::collections::BTreeMap;

use flexor_model::{
    ArgRule, Checkpoints, CriticalNodes, EndPolicy, EnvRule, EnvValue, FailureBudget, IdRule, NamedPort, NodeId,
    Pattern, PodTemplate, PortName, PrioritySplit, Rank, Reason, Resources, RoleKind, RoleName, RoleNaming, RoleSize,
    Rounding, ServiceRule, ServiceScope, Sizing, SplitOrder, Strategy,
};

use super::*;
use crate::Cause;

fn role(name: &str, kind: RoleKind, program: Program, template: Value) -> Role {
    let service = ServiceRule {
        name: Pattern::of("{job}-{role}-{rank}"),
        scope: ServiceScope::Rank,
        selector: Vec::new(),
        ports: vec![NamedPort::of("grpc", 50001), NamedPort::of("store", 29400)],
    };
    Role {
        name: name.parse().unwrap(),
        kind,
        size: RoleSize::fixed(2),
        program,
        template: PodTemplate::new(template, "main").unwrap(),
        priority: RolePriority::FromTemplate,
        failures: FailureBudget::PerNode(3),
        critical: CriticalNodes::Usual,
        naming: RoleNaming { pod: Pattern::of("{job}-{role}-{id}"), ids: IdRule::Rank, labels: BTreeMap::new() },
        service: Some(service),
        ports: Vec::new(),
        env: Vec::new(),
        leading_args: Vec::new(),
    }
}

fn container(fields: Value) -> Value {
    let mut container = json!({ "name": "main", "image": "train:1", "command": ["train"] });
    for (field, value) in fields.as_object().unwrap() {
        container[field] = value.clone();
    }
    json!({ "spec": { "containers": [container] } })
}

fn worker(template: Value) -> Role {
    role("worker", RoleKind::Worker, Program::Foreign, template)
}

fn master() -> Role {
    let mut master = role("master", RoleKind::Master, Program::FlexorMaster, container(json!({})));
    (master.size, master.ports) = (RoleSize::fixed(1), vec![NamedPort::of("grpc", 50001)]);
    master
}

fn desired(role: &Role) -> DesiredPod {
    DesiredPod {
        name: format!("j-{}-1", role.name),
        role: role.name.clone(),
        id: NodeId(7),
        rank: Rank(1),
        relaunches: 0,
        labels: BTreeMap::new(),
        replicas: [(role.name.clone(), 2)].into(),
        resources: Resources::default(),
        is_limited: false,
        memory: None,
        place: None,
        cause: Cause::new(Reason::PodWanted, "a test wants it"),
    }
}

fn job(roles: Vec<Role>) -> Job {
    Job {
        name: "j".parse().unwrap(),
        namespace: None,
        dialect: "test".to_owned(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        strategy: Strategy::AllReduce,
        roles,
        sizing: Sizing::Manual,
        ceiling: Resources::default(),
        end: EndPolicy::default(),
        suspended: false,
        ps_replication_factor: 1,
        checkpoints: None,
    }
}

/// Renders a pod of the last role of a job, on a cluster.
fn render(job: &Job, change: impl FnOnce(&mut DesiredPod)) -> Value {
    render_with(job, FlexorProgram::Image("flexor:1"), change)
}

fn render_with(job: &Job, flexor: FlexorProgram<'_>, change: impl FnOnce(&mut DesiredPod)) -> Value {
    let (uid, namespace) = (JobUid::from("u-1"), "ns".parse().unwrap());
    let addresses = ServiceAddresses { job, uid: &uid, namespace: &namespace };
    let context = RenderContext {
        job,
        uid: &uid,
        namespace: &namespace,
        owner: Owner { api_version: "example.dev/v1", kind: "Job", name: "j", uid: "u-1" },
        flexor,
        addresses: &addresses,
        master_state: "/state",
        error_file: &|container| format!("/errors/{container}"),
        token: None,
    };
    let role = job.roles.last().unwrap();
    let mut desired = desired(role);
    change(&mut desired);
    pod(&context, role, &desired)
}

fn main_of(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]
}

fn env<'a>(container: &'a Value, name: &str) -> Vec<&'a Value> {
    container["env"].as_array().unwrap().iter().filter(|variable| variable["name"] == name).collect()
}

fn value(container: &Value, name: &str) -> Option<String> {
    env(container, name).first()?["value"].as_str().map(str::to_owned)
}

fn address(name: &str, role: &str, port: &str) -> EnvRule {
    EnvRule::address(name, role.parse().unwrap(), port.parse::<PortName>().unwrap())
}

#[test]
fn a_pod_is_named_and_owned_and_has_no_status() {
    let pod = render(&job(vec![worker(container(json!({})))]), |_| {});
    assert_eq!((&pod["apiVersion"], &pod["kind"]), (&json!("v1"), &json!("Pod")));
    assert_eq!((&pod["metadata"]["name"], &pod["metadata"]["namespace"]), (&json!("j-worker-1"), &json!("ns")));
    let owner = json!({
        "apiVersion": "example.dev/v1", "kind": "Job", "name": "j", "uid": "u-1",
        "controller": true, "blockOwnerDeletion": true,
    });
    assert_eq!(pod["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(pod.as_object().unwrap().keys().collect::<Vec<_>>(), ["apiVersion", "kind", "metadata", "spec"]);
}

#[test]
fn labels_of_the_job_give_way_to_the_templates_and_those_to_the_dialects_and_flexors() {
    let mut template = container(json!({}));
    template["metadata"] = json!({ "labels": { "b": "template", "c": "template", "d": "template" } });
    let mut job = job(vec![worker(template)]);
    job.labels = ["a", "b"].map(|key| (key.to_owned(), "job".to_owned())).into();
    let pod = render(&job, |desired| {
        desired.labels = [("c".to_owned(), "dialect".to_owned()), (RANK_LABEL.to_owned(), "9".to_owned())].into();
    });
    let expected = json!({
        "a": "job", "b": "template", "c": "dialect", "d": "template",
        "flexor.dev/job-uid": "u-1", "flexor.dev/role": "worker", "flexor.dev/id": "7", "flexor.dev/rank": "1",
        "flexor.dev/relaunches": "0",
    });
    assert_eq!(pod["metadata"]["labels"], expected);
}

#[test]
fn annotations_of_job_and_template_are_carried_and_a_replacement_says_so() {
    let mut template = container(json!({}));
    template["metadata"] = json!({ "annotations": { "b": "template" } });
    let mut job = job(vec![worker(template)]);
    assert_eq!(render(&job, |_| {})["metadata"]["annotations"], json!({ "b": "template" }));
    job.annotations = ["a", "b"].map(|key| (key.to_owned(), "job".to_owned())).into();
    let pod = render(&job, |desired| desired.relaunches = 2);
    assert_eq!(pod["metadata"]["annotations"], json!({ "a": "job", "b": "template", "flexor.dev/replaced": "2" }));
    assert_eq!(pod["metadata"]["labels"][RELAUNCHES_LABEL], "2");
}

#[test]
fn containers_are_never_restarted_in_place_and_the_rest_of_the_spec_stays() {
    let mut template = container(json!({ "workingDir": "/w" }));
    template["spec"]["restartPolicy"] = "Always".into();
    template["spec"]["terminationGracePeriodSeconds"] = 5.into();
    template["spec"]["tolerations"] = json!([{ "key": "spot" }]);
    let pod = render(&job(vec![worker(template)]), |_| {});
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 5);
    let lost = |taint: &str| json!({ "key": format!("node.kubernetes.io/{taint}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 15 });
    let tolerations = json!([{ "key": "spot" }, lost("not-ready"), lost("unreachable")]);
    assert_eq!(pod["spec"]["tolerations"], tolerations);
    assert_eq!((&main_of(&pod)["workingDir"], &main_of(&pod)["image"]), (&json!("/w"), &json!("train:1")));
    assert!(pod["spec"].get("initContainers").is_none() && main_of(&pod).get("ports").is_none());
}

#[test]
fn the_priority_class_is_the_templates_the_roles_or_that_of_the_pods_share() {
    let class = |priority: RolePriority, rank: u32| {
        let mut template = container(json!({}));
        template["spec"]["priorityClassName"] = "mine".into();
        let role = Role { priority, ..worker(template) };
        render(&job(vec![role]), |desired| desired.rank = Rank(rank))["spec"]["priorityClassName"].clone()
    };
    assert_eq!(class(RolePriority::FromTemplate, 0), "mine");
    assert_eq!(class(RolePriority::Class("high".to_owned()), 0), "high");
    let half = PrioritySplit { share: 0.5, rounding: Rounding::Nearest, order: SplitOrder::First, before: 0 };
    assert_eq!(class(RolePriority::Split(half), 0), "high");
    assert_eq!(class(RolePriority::Split(half), 1), "low");
}

#[test]
fn planned_resources_replace_requests_and_raise_limits() {
    let resources = json!({ "requests": { "cpu": "1" }, "limits": { "cpu": 2, "memory": "1Gi", "nvidia.com/gpu": 4 } });
    let job = job(vec![worker(container(json!({ "resources": resources })))]);
    let pod = render(&job, |desired| {
        let planned = [("cpu", "3"), ("memory", "512Mi"), ("nvidia.com/gpu", "2")];
        desired.resources = planned.map(|(name, quantity)| (name, quantity.parse().unwrap())).into_iter().collect();
    });
    let expected = json!({
        "requests": { "cpu": "3", "nvidia.com/gpu": "2", "memory": "512Mi" },
        "limits": { "cpu": "3", "memory": "1Gi", "nvidia.com/gpu": "2" },
    });
    assert_eq!(main_of(&pod)["resources"], expected);
}

#[test]
fn memory_that_grew_after_an_oom_kill_counts_where_it_is_more_than_planned() {
    let limited = container(json!({ "resources": { "limits": { "memory": "1Gi" } } }));
    let memory = |template: Value, planned: &str, grown: Option<&str>| {
        let pod = render(&job(vec![worker(template)]), |desired| {
            desired.resources = [("memory", planned.parse().unwrap())].into_iter().collect();
            desired.memory = grown.map(|grown| grown.parse().unwrap());
        });
        main_of(&pod)["resources"].clone()
    };
    let both = |text: &str| json!({ "limits": { "memory": text }, "requests": { "memory": text } });
    assert_eq!(memory(limited.clone(), "2Gi", Some("3Gi")), both("3Gi"));
    assert_eq!(memory(limited, "4Gi", Some("3Gi")), both("4Gi"));
    let unlimited = memory(container(json!({})), "2Gi", None);
    assert_eq!(unlimited, json!({ "requests": { "memory": "2Gi" } }), "no limit is made up");
}

#[test]
fn every_container_learns_who_its_pod_is_and_where_the_master_is() {
    let mut template = container(json!({}));
    template["spec"]["initContainers"] = json!([{ "name": "load", "env": [{ "name": "POD_IP", "value": "mine" }] }]);
    let pod = render(&job(vec![master(), worker(template)]), |_| {});
    let load = &pod["spec"]["initContainers"][0];
    for container in [load, main_of(&pod)] {
        assert_eq!(env(container, "POD_UID")[0]["valueFrom"]["fieldRef"]["fieldPath"], "metadata.uid");
        assert_eq!(value(container, "FLEXOR_MASTER").as_deref(), Some("j-master-0.ns.svc:50001"));
    }
    assert_eq!(value(load, "TORCHELASTIC_ERROR_FILE").as_deref(), Some("/errors/load"));
    assert_eq!(value(main_of(&pod), "TORCHELASTIC_ERROR_FILE").as_deref(), Some("/errors/main"));
    assert_eq!(env(load, "POD_IP"), [&json!({ "name": "POD_IP", "value": "mine" })], "the template's own wins");
}

#[test]
fn variables_of_the_role_come_before_those_of_the_template_which_win() {
    let mut role =
        worker(container(json!({ "env": [{ "name": "A", "value": "mine" }, { "name": "B", "value": "$(R)" }] })));
    role.env = vec![
        EnvRule::literal("A", "ours"),
        EnvRule::text("R", "{rank} of {replicas:worker}"),
        EnvRule::pod_field("NODE_IP", "status.hostIP"),
        EnvRule::literal("POD_NAME", "other"),
        EnvRule::literal("ENTRY", "echo $HOME $(A)"),
    ];
    let pod = render(&job(vec![role]), |_| {});
    let main = main_of(&pod);
    assert_eq!(value(main, "A").as_deref(), Some("mine"));
    assert_eq!(env(main, "A").len(), 1);
    assert_eq!(value(main, "R").as_deref(), Some("1 of 2"));
    assert_eq!(env(main, "NODE_IP")[0]["valueFrom"]["fieldRef"]["fieldPath"], "status.hostIP");
    assert_eq!(env(main, "POD_NAME"), [&json!({ "name": "POD_NAME", "value": "other" })], "a role's rule wins");
    assert_eq!(value(main, "ENTRY").as_deref(), Some("echo $$HOME $$(A)"), "a kubelet expands nothing in it");
    let at = |name: &str| main["env"].as_array().unwrap().iter().position(|one| one["name"] == name);
    assert!(at("R") < at("B"), "B may refer to R");
}

#[test]
fn addresses_are_those_of_the_role_that_is_asked_for() {
    let mut role = worker(container(json!({})));
    role.env = vec![
        address("MASTER", "master", "grpc"),
        address("PS", "ps", "grpc"),
        address("UNKNOWN_ROLE", "none", "grpc"),
        address("UNKNOWN_PORT", "ps", "http"),
    ];
    let ps = role_ps();
    let pod = render(&job(vec![master(), ps, role]), |_| {});
    assert_eq!(value(main_of(&pod), "MASTER").as_deref(), Some("j-master-0.ns.svc:50001"));
    assert_eq!(value(main_of(&pod), "PS").as_deref(), Some("j-ps-0.ns.svc:50001"));
    assert!(env(main_of(&pod), "UNKNOWN_ROLE").is_empty() && env(main_of(&pod), "UNKNOWN_PORT").is_empty());
}

fn role_ps() -> Role {
    role("ps", RoleKind::ParameterServer, Program::FlexorPs, container(json!({ "command": ["flexor", "ps"] })))
}

#[test]
fn a_foreign_program_meets_at_its_sidecar_which_comes_first() {
    let mut template = container(json!({}));
    template["spec"]["initContainers"] = json!([{ "name": "load" }]);
    let mut role = worker(template);
    role.env = vec![address("PET_RDZV_ENDPOINT", "master", "store")];
    let pod = render(&job(vec![master(), role]), |_| {});
    assert_eq!(value(main_of(&pod), "PET_RDZV_ENDPOINT").as_deref(), Some("127.0.0.1:29400"));
    let sidecar = &pod["spec"]["initContainers"][0];
    assert_eq!((&sidecar["name"], &sidecar["restartPolicy"]), (&json!(SIDECAR), &json!("Always")));
    assert_eq!(sidecar["image"], "flexor:1");
    let command = [
        "flexor",
        "sidecar",
        "--upstream",
        "j-master-0.ns.svc:50001",
        "--error-file",
        "/var/run/flexor/errors/main.json",
        "--message-file",
        "/dev/termination-log",
        "--listen=127.0.0.1:29400",
    ];
    assert_eq!(sidecar["command"], json!(command));
    assert_eq!(value(main_of(&pod), "TORCHELASTIC_ERROR_FILE").as_deref(), Some("/var/run/flexor/errors/main.json"));
    for container in [main_of(&pod), sidecar] {
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/var/run/flexor/errors");
    }
    assert_eq!(sidecar["resources"]["requests"], sidecar["resources"]["limits"]);
    let default = &pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"];
    assert_eq!(default, "main", "what `kubectl logs` means");
    assert_eq!(env(sidecar, "POD_UID").len(), 1);
    assert_eq!(pod["spec"]["initContainers"][1]["name"], "load");
}

#[test]
fn a_sidecar_of_a_cluster_listens_on_the_port_that_a_command_line_adds_to_its_host() {
    let mut role = worker(container(json!({})));
    role.env = vec![address("PET_RDZV_ENDPOINT", "master", "store"), EnvRule::sidecar_host("RDZV_ENDPOINT", 2222)];
    let job = job(vec![master(), role.clone()]);
    let pod = render(&job, |_| {});
    assert_eq!(value(main_of(&pod), "RDZV_ENDPOINT").as_deref(), Some("127.0.0.1"));
    let command = pod["spec"]["initContainers"][0]["command"].as_array().unwrap();
    assert_eq!(command[8..], [json!("--listen=127.0.0.1:29400"), json!("--listen=127.0.0.1:2222")]);

    let pod = render_with(&job, FlexorProgram::Machine("/bin/flexor"), |_| {});
    assert!(env(main_of(&pod), "RDZV_ENDPOINT").is_empty(), "nothing serves port 2222 of a machine");
    let command = pod["spec"]["initContainers"][0]["command"].as_array().unwrap();
    assert_eq!(command.len(), 4, "it inherits its socket: {command:?}");

    role.program = Program::FlexorLaunch;
    let pod = render(&self::job(vec![master(), role]), |_| {});
    assert!(env(main_of(&pod), "RDZV_ENDPOINT").is_empty(), "a pod without a sidecar");
}

#[test]
fn leading_arguments_come_before_the_templates_in_the_main_container_alone() {
    let args = |fields: Value| {
        let mut template = container(fields);
        let others = template["spec"]["containers"].as_array_mut().unwrap();
        others.push(json!({ "name": "log", "args": ["tail"] }));
        let mut role = worker(template);
        let literal = ArgRule::Literal("--endpoint=$(HOME){rank}".to_owned());
        role.leading_args = vec![literal, ArgRule::text("--id={uid}-{rank}")];
        let pod = render(&job(vec![role]), |_| {});
        assert_eq!(pod["spec"]["containers"][1]["args"], json!(["tail"]));
        (main_of(&pod)["command"].clone(), main_of(&pod)["args"].clone())
    };
    let leading = ["--endpoint=$$(HOME){rank}", "--id=u-1-1"];
    let behind = |own: &[&str]| json!([&leading, own].concat());
    assert_eq!(args(json!({ "args": ["train.py"] })), (json!(["train"]), behind(&["train.py"])));
    assert_eq!(args(json!({})), (json!(["train"]), behind(&[])));
    let without = render(&job(vec![worker(container(json!({})))]), |_| {});
    assert!(main_of(&without).get("args").is_none());
}

#[test]
fn flexors_own_launcher_asks_the_master_and_needs_no_sidecar() {
    let mut role = worker(container(json!({ "command": ["flexor", "launch", "train.py"] })));
    (role.program, role.env) = (Program::FlexorLaunch, vec![address("PET_RDZV_ENDPOINT", "master", "store")]);
    let pod = render(&job(vec![master(), role]), |_| {});
    assert_eq!(value(main_of(&pod), "PET_RDZV_ENDPOINT").as_deref(), Some("j-master-0.ns.svc:50001"));
    assert!(pod["spec"].get("initContainers").is_none());
}

#[test]
fn the_master_runs_flexor_whatever_its_template_says() {
    let fields = json!({
        "command": ["python"], "args": ["-m", "master"], "livenessProbe": {}, "volumeMounts": [{ "name": "v" }],
        "resources": { "requests": { "cpu": "1" } }, "env": [{ "name": "LOG", "value": "debug" }],
    });
    let mut own = Role { template: PodTemplate::new(container(fields), "main").unwrap(), ..master() };
    own.ports = vec![NamedPort::of("grpc", 50001), NamedPort::of("http", 8080)];
    let mut job = job(vec![worker(container(json!({}))), own]);
    job.checkpoints = Some(Checkpoints { folder: "/c".to_owned(), every_seconds: 60, keep: 3 });
    let pod = render(&job, |_| {});
    let main = main_of(&pod);
    let command = [
        "flexor",
        "master",
        "--job",
        "j",
        "--uid",
        "u-1",
        "--nnodes",
        "2:2",
        "--state",
        "/state",
        "--ps-replication-factor",
        "1",
        "--checkpoint-folder=/c",
        "--checkpoint-every=60",
        "--checkpoint-keep=3",
        "--grpc=0.0.0.0:50001",
        "--http=0.0.0.0:8080",
        "--allowed-host=j-master-0.ns.svc",
    ];
    assert_eq!((&main["command"], &main["image"]), (&json!(command), &json!("flexor:1")));
    assert_eq!((&main["resources"]["requests"]["cpu"], value(main, "LOG").as_deref()), (&json!("1"), Some("debug")));
    let ports = json!([{ "name": "grpc", "containerPort": 50001 }, { "name": "http", "containerPort": 8080 }]);
    assert_eq!(main["ports"], ports);
    assert!(main.get("args").is_none(), "of another program");
    assert_eq!(main["livenessProbe"], json!({ "httpGet": { "path": "/live", "port": "http" } }));
    assert_eq!(main["volumeMounts"], json!([{ "name": "flexor-state", "mountPath": "/state" }]));
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
}

#[test]
fn a_master_of_this_machine_is_a_path_and_inherits_its_sockets() {
    let pod = render_with(&job(vec![master()]), FlexorProgram::Machine("/bin/flexor"), |_| {});
    let main = main_of(&pod);
    assert_eq!(main["command"][0], "/bin/flexor");
    assert!(main.get("image").is_none() && main.get("ports").is_none());
    assert!(main["command"].as_array().unwrap().iter().all(|word| !word.as_str().unwrap().contains("0.0.0.0")));
}

#[test]
fn a_parameter_server_without_a_command_runs_flexors() {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "user:1", "workingDir": "/w" }] } });
    let pod = render(&job(vec![role("ps", RoleKind::ParameterServer, Program::FlexorPs, template)]), |_| {});
    let main = main_of(&pod);
    assert_eq!((&main["command"], &main["image"]), (&json!(["flexor", "ps"]), &json!("flexor:1")));
    assert_eq!(main["workingDir"], "/w");
    let pod = render(&job(vec![role_ps()]), |_| {});
    assert_eq!(main_of(&pod)["image"], "train:1", "a template with a command keeps its image");
}

#[test]
fn ports_of_the_role_are_declared_once() {
    let mut role = worker(container(json!({ "ports": [{ "containerPort": 3333 }] })));
    role.ports = vec![NamedPort::of("grpc", 3333), NamedPort::of("http", 8080)];
    let pod = render(&job(vec![role]), |_| {});
    assert_eq!(main_of(&pod)["ports"], json!([{ "containerPort": 3333 }, { "name": "http", "containerPort": 8080 }]));
}

#[test]
fn tf_config_lists_the_tasks_by_rank_and_says_which_one_the_pod_is() {
    let tf_config = || vec![EnvRule { name: "TF_CONFIG".to_owned(), value: EnvValue::TfConfig }];
    let evaluator = role("evaluator", RoleKind::Evaluator, Program::Foreign, container(json!({})));
    let mut chief = role("chief", RoleKind::Chief, Program::Foreign, container(json!({})));
    chief.size = RoleSize::fixed(1);
    let workers = Role { env: tf_config(), ..worker(container(json!({}))) };
    let job = job(vec![master(), role_ps(), chief, evaluator, workers]);
    let targets: [(&str, u32); 4] = [("ps", 2), ("chief", 1), ("worker", 1), ("evaluator", 0)];
    let replicas: BTreeMap<RoleName, u32> = targets.map(|(role, count)| (role.parse().unwrap(), count)).into();
    let pod = render(&job, |desired| desired.replicas = replicas);
    let rendered: Value = serde_json::from_str(&value(main_of(&pod), "TF_CONFIG").unwrap()).unwrap();
    let expected = json!({
        "cluster": {
            "ps": ["j-ps-0.ns.svc:50001", "j-ps-1.ns.svc:50001"],
            "chief": ["j-chief-0.ns.svc:50001"],
            // Its own rank is one above the target.
            "worker": ["j-worker-0.ns.svc:50001", "j-worker-1.ns.svc:50001"],
        },
        "task": { "type": "worker", "index": 1 },
    });
    assert_eq!(rendered, expected);
}

#[test]
fn tf_config_is_left_out_where_a_task_has_no_lasting_address() {
    let mut role = worker(container(json!({})));
    role.env = vec![EnvRule { name: "TF_CONFIG".to_owned(), value: EnvValue::TfConfig }];
    if let Some(rule) = &mut role.service {
        rule.scope = ServiceScope::Pod;
    }
    assert!(env(main_of(&render(&job(vec![role]), |_| {})), "TF_CONFIG").is_empty());
}

#[test]
fn the_file_with_the_token_is_named_to_every_container() {
    let job = job(vec![master()]);
    let (uid, namespace) = (JobUid::from("u-1"), "ns".parse().unwrap());
    let addresses = ServiceAddresses { job: &job, uid: &uid, namespace: &namespace };
    let context = RenderContext {
        job: &job,
        uid: &uid,
        namespace: &namespace,
        owner: Owner { api_version: "v1", kind: "Job", name: "j", uid: "u-1" },
        flexor: FlexorProgram::Image("flexor:1"),
        addresses: &addresses,
        master_state: "/state",
        error_file: &|_| "/dev/termination-log".to_owned(),
        token: Some(TokenPlace::File("/token".to_owned())),
    };
    let pod = pod(&context, &job.roles[0], &desired(&job.roles[0]));
    assert_eq!(value(main_of(&pod), "FLEXOR_TOKEN_FILE").as_deref(), Some("/token"));
}

#[test]
fn the_token_of_a_job_is_mounted_into_every_container_on_a_cluster() {
    let (uid, namespace) = (JobUid::from("u-1"), "ns".parse().unwrap());
    let job = job(vec![master(), worker(container(json!({})))]);
    let addresses = ServiceAddresses { job: &job, uid: &uid, namespace: &namespace };
    let context = RenderContext {
        job: &job,
        uid: &uid,
        namespace: &namespace,
        owner: Owner { api_version: "example.dev/v1", kind: "Job", name: "j", uid: "u-1" },
        flexor: FlexorProgram::Image("flexor:1"),
        addresses: &addresses,
        master_state: "/state",
        error_file: &|_| "/dev/termination-log".to_owned(),
        token: Some(TokenPlace::Secret("flexor-token-u-1".to_owned())),
    };
    for role in &job.roles {
        let pod = pod(&context, role, &desired(role));
        let volume = &pod["spec"]["volumes"][0];
        assert_eq!(volume["secret"]["secretName"], "flexor-token-u-1");
        let sidecars = pod["spec"]["initContainers"].as_array().into_iter().flatten();
        for container in sidecars.chain(pod["spec"]["containers"].as_array().unwrap()) {
            let mount = json!({ "name": "flexor-token", "mountPath": "/var/run/flexor/token", "readOnly": true });
            assert_eq!(container["volumeMounts"][0], mount);
            assert_eq!(value(container, "FLEXOR_TOKEN_FILE").as_deref(), Some("/var/run/flexor/token/token"));
        }
    }
    let secret = token_secret(&context, "flexor-token-u-1", "s3cret");
    assert_eq!((&secret["immutable"], &secret["stringData"]["token"]), (&json!(true), &json!("s3cret")));
    assert_eq!(secret["metadata"]["ownerReferences"][0]["name"], "j", "it goes with the job");
}

#[test]
fn pods_on_the_network_of_their_node_have_sidecars_at_addresses_of_their_own() {
    let mut template = container(json!({}));
    template["spec"]["hostNetwork"] = true.into();
    let mut role = worker(template);
    role.env = vec![address("PET_RDZV_ENDPOINT", "master", "store")];
    let pod = render(&job(vec![master(), role]), |_| {});
    let endpoint = value(main_of(&pod), "PET_RDZV_ENDPOINT").unwrap();
    assert!(endpoint.starts_with("127.") && !endpoint.starts_with("127.0.0.1:"), "{endpoint}");
    let command = pod["spec"]["initContainers"][0]["command"].as_array().unwrap();
    assert_eq!(command.last().unwrap(), &json!(format!("--listen={endpoint}")));
}
