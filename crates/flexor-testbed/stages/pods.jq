def annotation($name): .metadata.annotations["testbed.flexor.dev/" + $name] // (@defaults@ | .[$name]);

def seconds:
  if endswith("ms") then (.[:-2] | tonumber) / 1000
  elif endswith("s") then .[:-1] | tonumber
  else (rtrimstr("m") | tonumber) * 60
  end;

def milliseconds: "\(. * 1000 | floor)ms";

def after($name; $since):
  (annotation($name) | seconds) as $wait
  | [$wait, ($since | fromdate) + 1 + $wait - now] | min | milliseconds;

def started: .status.containerStatuses[0].state.running.startedAt;

def ending:
  . as $pod
  | first(
      "complete-after", "fail-after", "oom-after", "evict-after"
      | select(. as $name | $pod | annotation($name))
    );

def is_restarted:
  .spec.restartPolicy != "Never" and (ending == "fail-after" or ending == "oom-after");
