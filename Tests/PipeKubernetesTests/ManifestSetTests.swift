import PipeKubernetes
import PipeRuntime
import Testing

@Suite("A topology as Kubernetes objects")
struct ManifestSetTests {
  private static let processes = [
    "hall-door", "hall-motor-2", "hall-lamp", "hall-bell", "hall-gong", "hall-lift",
  ]

  @Test(
    "Each process has a StatefulSet with one replica and a headless service"
  )
  func processes() throws {
    let set = try Hall.set()
    let all = set.manifests.map(\.json)
    let names = { (kind: String) in
      all.filter { $0["kind"]?.string == kind }.compactMap { $0["metadata"]?["name"]?.string }
    }
    #expect(names("StatefulSet") == ["hall-orchestrator"] + Self.processes)
    #expect(names("Service") == ["hall-orchestrator"] + Self.processes)
    #expect(names("NetworkPolicy") == ["hall"] && names("Secret") == [])
    #expect(all.count == 2 * 7 + 2)
    for name in names("StatefulSet") {
      let state = try #require(set.object("StatefulSet", name))
      #expect(state["apiVersion"]?.string == "apps/v1")
      #expect(state["spec"]?["replicas"]?.integer == 1)
      #expect(state["spec"]?["podManagementPolicy"]?.string == "Parallel")
      #expect(state["spec"]?["serviceName"]?.string == name)
      let service = try #require(set.object("Service", name)?["spec"])
      #expect(service["clusterIP"]?.string == "None")
      #expect(service["publishNotReadyAddresses"] == true)
      // The service and the StatefulSet select the pod of this process and no other.
      let labels = try #require(state["spec"]?["template"]?["metadata"]?["labels"])
      let selector = try #require(service["selector"])
      #expect(state["spec"]?["selector"]?["matchLabels"] == selector)
      #expect(selector.keys.allSatisfy { selector[$0] == labels[$0] })
      #expect(selector["app.kubernetes.io/instance"]?.string == name)
    }
    for object in all { #expect(object["metadata"]?["namespace"]?.string == "hall") }
  }

  @Test("A node's pod runs an agent for the node, with the agent's key, address and host")
  func agent() throws {
    let set = try Hall.set()
    let container = try #require(set.container("hall-motor-2"))
    #expect(
      container["command"]?.strings == [
        "orchestrator", "agent", "Motor_2", "--key", "/etc/piperuntime/agent.key", "--address",
        "$(POD_IP)", "--host", "$(HOST_NAME)",
      ])
    #expect(container["image"]?.string == "registry.example/hall:1.0")
    let environment = try #require(container["env"])
    let field = { environment.named($0)?["valueFrom"]?["fieldRef"]?["fieldPath"]?.string }
    #expect(field("POD_IP") == "status.podIP" && field("HOST_NAME") == "spec.nodeName")
    #expect(environment.named("PIPERUNTIME_ROOT")?["value"]?.string == "/var/lib/piperuntime")
    let key = try #require(container["volumeMounts"]?.named("key"))
    #expect(key["mountPath"]?.string == "/etc/piperuntime/agent.key")
    #expect(key["subPath"]?.string == "agent.key" && key["readOnly"] == true)
    let secret = set.pod("hall-motor-2")?["volumes"]?.named("key")?["secret"]
    #expect(secret?["secretName"]?.string == "hall-motor-2")
    #expect(secret?["defaultMode"]?.integer == 0o440)
  }

  @Test(
    "The orchestrator's pod has the unchanged topology and deployment files and a port for agents")
  func orchestrator() throws {
    let set = try Hall.set(by: Hall.deployment + "port: 9000\nnamespace: east\n")
    let container = try #require(set.container("hall-orchestrator"))
    let directory = "/etc/piperuntime/topology"
    #expect(
      container["command"]?.strings == [
        "orchestrator", "run", directory + "/hall.yaml", "--deployment",
        directory + "/deployment.yaml", "--keys", "/etc/piperuntime/keys",
        "--own-address", "$(POD_IP)",
        "--plain",
      ])
    let map = try #require(set.object("ConfigMap", "hall-orchestrator.files"))
    #expect(map["data"]?["hall.yaml"]?.string == Hall.topology)
    #expect(
      map["data"]?["deployment.yaml"]?.string
        == Hall.deployment + "port: 9000\nnamespace: east\n")
    let mounts = container["volumeMounts"]?.elements ?? []
    #expect(
      mounts.compactMap { $0["mountPath"]?.string }.sorted() == [
        "/etc/piperuntime/keys", directory + "/deployment.yaml", directory + "/hall.yaml", "/tmp",
        "/var/lib/piperuntime",
      ])
    #expect(container["ports"]?.named("control")?["containerPort"]?.integer == 9000)
    let service = set.object("Service", "hall-orchestrator")
    #expect(service?["spec"]?["ports"]?.named("control")?["port"]?.integer == 9000)
    #expect(service?["metadata"]?["namespace"]?.string == "east")
    #expect(set.endpoint == "tcp://hall-orchestrator.east.svc:9000")
    #expect(try Hall.set().endpoint == "tcp://hall-orchestrator.hall.svc:7300")
  }

  @Test("If a topology is named 'deployment', its files still get different names")
  func fileNames() throws {
    let set = try Hall.set(Hall.topology.replacing("topology: hall", with: "topology: deployment"))
    let map = try #require(set.object("ConfigMap", "deployment-orchestrator.files"))
    #expect(map["data"]?.keys == ["deployment.yaml", "topology.yaml"])
    #expect(
      set.container("deployment-orchestrator")?["command"]?.strings[2]
        == "/etc/piperuntime/topology/topology.yaml")
  }

  @Test(
    "A process that records data has a volume claim, and other processes a directory of their pod",
    arguments: [
      ("hall-orchestrator", true), ("hall-door", true), ("hall-motor-2", true),
      ("hall-lamp", false),
      ("hall-bell", false), ("hall-gong", true), ("hall-lift", true),
    ])
  func claims(name: String, isClaimed: Bool) throws {
    let set = try Hall.set()
    let claims = set.object("StatefulSet", name)?["spec"]?["volumeClaimTemplates"]
    let volume = set.pod(name)?["volumes"]?.named("data")
    #expect((claims != nil) == isClaimed && (volume != nil) != isClaimed)
    let mount = set.container(name)?["volumeMounts"]?.named("data")
    #expect(mount?["mountPath"]?.string == "/var/lib/piperuntime")
    guard isClaimed else {
      #expect(volume?["emptyDir"] == [:])
      return
    }
    let claim = try #require(claims?.elements.first)
    #expect(claim["metadata"]?["name"]?.string == "data")
    #expect(claim["spec"]?["resources"]?["requests"]?["storage"]?.string == "2Gi")
    #expect(claim["spec"]?["storageClassName"]?.string == "fast")
    let plain = try Hall.set(by: "engine: kubernetes\nimage: i\n" + Self.places)
    let other = plain.object("StatefulSet", name)?["spec"]?["volumeClaimTemplates"]?.elements.first
    #expect(other?["spec"]?.keys == ["accessModes", "resources"])
    #expect(other?["spec"]?["resources"]?["requests"]?["storage"]?.string == "1Gi")
  }

  private static let places = "places: { front: { hosts: [a] }, back: { hosts: [b] } }"

  @Test("Places select hosts by name or label, and a process without a place runs anywhere")
  func placement() throws {
    let set = try Hall.set()
    let affinity = set.pod("hall-door")?["affinity"]?["nodeAffinity"]
    let terms = affinity?["requiredDuringSchedulingIgnoredDuringExecution"]?["nodeSelectorTerms"]
    #expect(
      terms?.elements == [
        [
          "matchExpressions": [
            ["key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]]
          ]
        ]
      ])
    #expect(set.pod("hall-door")?["nodeSelector"] == nil)
    #expect(set.pod("hall-motor-2")?["nodeSelector"] == ["zone": "east", "tier": "2"])
    #expect(set.pod("hall-motor-2")?["affinity"] == nil)
    for name in ["hall-lamp", "hall-lift", "hall-orchestrator"] {
      #expect(set.pod(name)?["nodeSelector"] == nil && set.pod(name)?["affinity"] == nil)
    }
  }

  @Test("Containers have minimal privileges and no access to the cluster's API")
  func security() throws {
    let set = try Hall.set()
    for name in ["hall-orchestrator"] + Self.processes {
      let pod = try #require(set.pod(name))
      #expect(pod["automountServiceAccountToken"] == false && pod["enableServiceLinks"] == false)
      let whole = try #require(pod["securityContext"])
      #expect(whole["runAsNonRoot"] == true)
      for key in ["runAsUser", "runAsGroup", "fsGroup"] { #expect(whole[key]?.integer == 1000) }
      #expect(whole["seccompProfile"]?["type"]?.string == "RuntimeDefault")
      let own = try #require(set.container(name)?["securityContext"])
      #expect(
        own["allowPrivilegeEscalation"] == false && own["readOnlyRootFilesystem"] == true)
      #expect(own["capabilities"]?["drop"]?.strings == ["ALL"])
      // The root file system is read-only, so /tmp is a volume.
      #expect(pod["volumes"]?.named("tmp")?["emptyDir"] == [:])
      let tolerated = pod["tolerations"]?.elements ?? []
      #expect(tolerated.count == 2 && tolerated.allSatisfy { $0["tolerationSeconds"] == nil })
    }
  }

  @Test("Liveness probes run 'orchestrator probe', and readiness probes run it with '--ready'")
  func probes() throws {
    let set = try Hall.set()
    for name in ["hall-orchestrator", "hall-lamp"] {
      let container = try #require(set.container(name))
      let command = { container[$0]?["exec"]?["command"]?.strings }
      #expect(command("livenessProbe") == ["orchestrator", "probe"])
      #expect(command("startupProbe") == ["orchestrator", "probe"])
      #expect(command("readinessProbe") == ["orchestrator", "probe", "--ready"])
    }
  }

  @Test("A pod's grace period is at least its node's stop timeout")
  func grace() throws {
    let set = try Hall.set()
    let seconds = { set.pod($0)?["terminationGracePeriodSeconds"]?.integer }
    #expect(seconds("hall-door") == 18)
    #expect(seconds("hall-orchestrator") == 15)
  }

  @Test("The network policy allows the topology's pods to reach only each other and name servers")
  func network() throws {
    let set = try Hall.set()
    let policy = try #require(set.object("NetworkPolicy", "hall")?["spec"])
    let own = try #require(policy["podSelector"])
    #expect(policy["policyTypes"]?.strings == ["Ingress", "Egress"])
    #expect(policy["ingress"]?.elements == [["from": [["podSelector": own]]]])
    let egress = policy["egress"]?.elements ?? []
    #expect(egress.count == 2 && egress[0] == ["to": [["podSelector": own]]])
    #expect(egress[1]["ports"]?.elements.allSatisfy { $0["port"]?.integer == 53 } == true)
    let labels = try #require(own["matchLabels"])
    for name in ["hall-orchestrator"] + Self.processes {
      let pod = set.object("StatefulSet", name)?["spec"]?["template"]?["metadata"]?["labels"]
      #expect(labels.keys.allSatisfy { labels[$0] == pod?[$0] })
    }
    #expect(labels["app.kubernetes.io/part-of"]?.string == "hall")
  }

  @Test("Labels identify a process and its component")
  func labels() throws {
    let set = try Hall.set()
    for (name, component) in [
      ("hall-orchestrator", "orchestrator"), ("hall-door", "node"), ("hall-lamp", "node"),
      ("hall-lift", "coordinator"),
    ] {
      let labels = try #require(set.object("StatefulSet", name)?["metadata"]?["labels"])
      #expect(labels["app.kubernetes.io/component"]?.string == component)
      #expect(labels["app.kubernetes.io/name"]?.string == String(name.dropFirst(5)))
      #expect(set.object("Service", name)?["metadata"]?["labels"] == labels)
    }
  }

  @Test("A change of the files replaces only the orchestrator's pod")
  func changedFiles() throws {
    let (first, second) = (try Hall.set(), try Hall.set(Hall.topology + "# seen\n"))
    let template = { (set: ManifestSet, name: String) in
      set.object("StatefulSet", name)?["spec"]?["template"]
    }
    #expect(template(first, "hall-orchestrator") != template(second, "hall-orchestrator"))
    #expect(template(first, "hall-door") == template(second, "hall-door"))
    #expect(ManifestSet.yaml(first.manifests) == ManifestSet.yaml(try Hall.set().manifests))
  }

  // MARK: Secrets

  @Test(
    "Each process has a Secret with its key, and the orchestrator has a Secret with its own keys")
  func secrets() throws {
    let secrets = try Hall.set().secrets(Hall.keys).map(\.json)
    #expect(
      secrets.compactMap { $0["metadata"]?["name"]?.string }
        == ["hall-orchestrator"] + Self.processes)
    #expect(secrets.allSatisfy { $0["kind"]?.string == "Secret" })
    #expect(
      secrets[0]["stringData"] == [
        "control.key": "{\"control\":1}\n", "client.key": "{\"client\":2}\n",
      ])
    #expect(
      secrets[2]["stringData"] == [
        "agent.key": "{\"Motor_2\":3}\n", "agent.public": "public-Motor_2",
      ])
  }

  @Test("The orchestrator's pod mounts only the public key from each process's Secret")
  func publicKeys() throws {
    let volume = try Hall.set().pod("hall-orchestrator")?["volumes"]?.named("keys")?["projected"]
    let sources = try #require(volume?["sources"]?.elements)
    #expect(volume?["defaultMode"]?.integer == 0o440)
    #expect(sources[0] == ["secret": ["name": "hall-orchestrator"]])
    #expect(
      sources.dropFirst().map { $0["secret"]?["name"]?.string } == Self.processes)
    #expect(
      sources[2]["secret"]?["items"]
        == [["key": "agent.public", "path": "Motor_2.agent"]])
  }

  @Test("An export of new keys has the selected processes' Secrets and the Secret of the variables")
  func someSecrets() throws {
    let keys = ManifestKeys(orchestrator: nil, agents: ["lamp": .init(file: "f", key: "k")])
    let set = try Hall.set(variables: ["PASSWORD": "x"])
    #expect(
      set.secrets(keys).map(\.json).compactMap { $0["metadata"]?["name"]?.string }
        == ["hall-orchestrator.variables", "hall-lamp"])
  }

  // MARK: Variables

  @Test(
    "The values of variables are in a Secret, and the Secret sets the orchestrator's environment")
  func variables() throws {
    let set = try Hall.set(
      variables: ["PASSWORD": "x", "PATH": "/bin"], deploymentVariables: ["TAG": "1"])
    let from = set.container("hall-orchestrator")?["envFrom"]
    #expect(from?.elements == [["secretRef": ["name": "hall-orchestrator.variables"]]])
    let secret = set.secrets(Hall.keys).map(\.json).first {
      $0["metadata"]?["name"]?.string == "hall-orchestrator.variables"
    }
    #expect(secret?["stringData"] == ["PASSWORD": "x", "TAG": "1"])
    #expect(!ManifestSet.yaml(set.manifests).contains("PASSWORD"))
    #expect(set.container("hall-door")?["envFrom"] == nil)
    #expect(try Hall.set().container("hall-orchestrator")?["envFrom"] == nil)
    #expect(throws: ManifestError.conflictingVariable("A", "a/hall.yaml", "b/cluster.yaml")) {
      try Hall.set(variables: ["A": "1"], deploymentVariables: ["A": "2"])
    }
    _ = try Hall.set(variables: ["A": "1"], deploymentVariables: ["A": "1"])
  }

  @Test("Programs named by relative paths are reported with their paths in the image")
  func programs() throws {
    let topology = """
      topology: t
      nodes:
        a: { machine: M, program: ./build/../bin/hall }
        b: { machine: M, program: ../hall }
        c: { machine: M, program: hall }
        d: { machine: M, program: /opt/hall }

      """
    let found = try Hall.set(topology, coordinatorPlans: []).programsWithRelativePaths
    #expect(found.map(\.name) == ["../hall", "./build/../bin/hall"])
    #expect(found.map(\.path) == ["/etc/piperuntime/hall", "/etc/piperuntime/topology/bin/hall"])
  }

  // MARK: Errors

  @Test("An export refuses a deployment whose engine is not Kubernetes")
  func engine() {
    #expect(throws: ManifestError.unsupportedEngine(.local)) {
      try Hall.set(by: "engine: local\nplaces: { front: { address: 127.0.0.1 } }")
    }
  }

  @Test("Files that exceed a ConfigMap's size are refused")
  func size() throws {
    let whole = Hall.topology.utf8.count + Hall.deployment.utf8.count
    let rest = (1 << 20) - whole - "hall.yamldeployment.yaml".utf8.count
    _ = try Hall.set(by: Hall.deployment + String(repeating: "#", count: rest))
    #expect(throws: ManifestError.tooLarge((1 << 20) + 1)) {
      try Hall.set(by: Hall.deployment + String(repeating: "#", count: rest + 1))
    }
  }

  @Test("A coordinator embedded in another process has no objects of its own")
  func within() throws {
    let set = try Hall.set(
      "topology: t\nprogram: p\nnodes:\n  a: { machine: M }\n",
      coordinatorPlans: [Hall.plan("A", host: "a", .process)])
    #expect(set.processes.map(\.name) == ["a"])
  }
}
