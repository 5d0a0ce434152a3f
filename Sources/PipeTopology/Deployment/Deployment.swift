import PipeMachines
import PipeSystem
import PipeWire

/// Where the places are that the nodes of topologies name: a deployment file as a value.
///
/// Source: decision 0062.
public struct Deployment: Sendable {
  /// What starts processes.
  public enum Engine: String, CaseIterable, Codable, Hashable, Sendable {
    /// The orchestrator itself, on its own machine.
    case local
    /// Slurm, within a job of its own, by `srun`.
    case slurm
    /// Kubernetes, in pods of which each has an agent; `orchestrator export kubernetes` writes what makes them.
    case kubernetes
  }

  /// What starts processes. Default: ``Engine/local``.
  public var engine: Engine
  /// The IPv4 address, in numbers, where the orchestrator and the nodes without a place listen; `nil` for
  /// ``standardAddress``, or with ``Engine/slurm`` that of the host on which the orchestrator runs.
  public var address: String?
  /// The places, in the order of the file.
  public var places: [DeploymentPlace]
  /// The directory of the journals of nodes that may move, which all hosts see; `nil` for each host's own.
  public var journals: String?
  /// How long a node with ``HostLossPolicy/move`` goes on without the orchestrator; it can be replaced on another host
  /// soon after that. Default: 5 s.
  public var lease: Duration
  /// With ``Engine/kubernetes``: the image of all containers, which has `orchestrator` and the topology's programs.
  public var image: String?
  /// With ``Engine/kubernetes``: the namespace; `nil` for the topology's name as a DNS label.
  public var namespace: String?
  /// With ``Engine/kubernetes``: the port where the orchestrator listens. Default: 7300. Range: 1024…65535.
  public var port: Int
  /// With ``Engine/kubernetes``: what is claimed for each process that records something.
  public var storage: DeploymentStorage
  /// The warnings of `check` about the file that are expected, by their codes.
  public var silence: [Diagnostic.Code]

  /// The port that a deployment has which names none.
  public static let standardPort = 7300

  /// The lease that a deployment has which names none.
  public static let standardLease: Duration = .seconds(5)
  /// How long one may be: longer than a process takes to part from its peers, and shorter than `up` waits.
  public static let leaseTerms: ClosedRange<Duration> = .seconds(2)...(.seconds(30))

  /// The address that a deployment has which names none, where all is on one host.
  public static let standardAddress = "127.0.0.1"

  /// Makes a deployment.
  public init(
    engine: Engine = .local, address: String? = nil, places: [DeploymentPlace] = [],
    journals: String? = nil, lease: Duration = Deployment.standardLease, image: String? = nil,
    namespace: String? = nil, port: Int = Deployment.standardPort,
    storage: DeploymentStorage = DeploymentStorage(), silence: [Diagnostic.Code] = []
  ) {
    self.silence = silence
    self.lease = lease
    self.image = image
    self.namespace = namespace
    self.port = port
    self.storage = storage
    self.engine = engine
    self.address = address
    self.places = places
    self.journals = journals
  }

  /// The place of a name, or `nil`.
  public func place(_ name: String) -> DeploymentPlace? {
    places.first { $0.name == name }
  }

  /// The deployment as JSON, which ``DeploymentFile`` reads back to an equal value.
  public var json: JSONValue { DeploymentKeys.top.written(self).json }

  /// The deployment as YAML, which ``DeploymentFile`` reads back to an equal value, in its order.
  public var yaml: String { DeploymentKeys.top.written(self).yaml }
}

extension Deployment: Equatable {
  /// Equal in all but the order of the places, which are a map in the file.
  public static func == (left: Deployment, right: Deployment) -> Bool {
    left.engine == right.engine && left.address == right.address
      && left.journals == right.journals && left.lease == right.lease
      && left.image == right.image && left.namespace == right.namespace && left.port == right.port
      && left.storage == right.storage && left.silence == right.silence
      && left.places.sorted { $0.name < $1.name } == right.places.sorted { $0.name < $1.name }
  }
}

/// A place that nodes can name, and where it is: an address of this machine, or hosts of an engine's, by their names or
/// their labels.
public struct DeploymentPlace: Hashable, Sendable {
  /// The name: `[A-Za-z0-9][A-Za-z0-9_-]{0,40}`.
  public var name: String
  /// With ``Deployment/Engine/local``: the IPv4 address, in numbers, where its nodes listen.
  public var address: String?
  /// With ``Deployment/Engine/slurm``: the hosts, by the names that Slurm has for them. Its nodes are dealt to them
  /// in turn. With ``Deployment/Engine/kubernetes``: the nodes of the cluster on which its pods may run.
  public var hosts: [String]
  /// Further hosts, to which nodes with ``HostLossPolicy/move`` go first where theirs is lost. A submitted job has them,
  /// too.
  public var spare: [String]
  /// With ``Deployment/Engine/kubernetes``, in place of ``hosts``: labels that a node of the cluster has on which its
  /// pods may run.
  public var labels: [String: String]

  /// Makes a place.
  public init(
    name: String, address: String? = nil, hosts: [String] = [], spare: [String] = [],
    labels: [String: String] = [:]
  ) {
    self.labels = labels
    self.name = name
    self.address = address
    self.hosts = hosts
    self.spare = spare
  }
}

/// What is claimed of a cluster's storage for one process: a persistent volume.
public struct DeploymentStorage: Hashable, Sendable {
  /// Its size as Kubernetes writes it: `1Gi`, which it is by default.
  public var size: String
  /// The storage class; `nil` for the cluster's default one.
  public var className: String?

  /// Makes a claim.
  public init(size: String = "1Gi", className: String? = nil) {
    self.size = size
    self.className = className
  }
}

/// Reads deployment files: YAML, of which JSON is a subset.
///
/// Checks all that the file tells by itself; that it fits its topologies and its machine is checked elsewhere.
/// Source: decision 0062.
public enum DeploymentFile {
  /// A deployment, and where its parts stand.
  public typealias Result = (deployment: Deployment, source: SourceMap)

  /// Reads a file. Its variables are the environment's, and those of a file `.env` beside it.
  /// - Throws: All errors of the file, in its order.
  public static func read(path: String) throws(TopologyErrors) -> Result {
    try sound(examine(.file(path)))
  }

  /// Reads a text.
  /// - Parameters:
  ///   - file: What diagnostics call it.
  ///   - variables: What `${NAME}` stands for. Default: the environment's variables.
  /// - Throws: All errors of the text, in its order.
  public static func read(
    text: some Sequence<UInt8>, file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Result {
    try sound(examine(text: Array(text), file: file, variables: variables))
  }

  /// What could be read of a file, and what is wrong with it.
  package struct Examined: Sendable {
    package var deployment: Deployment
    package var source: SourceMap
    package var diagnostics: [Diagnostic]

    /// Whether the file names a place, be it one that could not be read.
    func names(_ place: String) -> Bool { source.has(["places", place]) }

    /// Whether the file says where journals are, be it what could not be read.
    var saysJournals: Bool { source.has(["journals"]) }
  }

  /// Reads what can be read of a file, for checks that can be made all the same.
  /// - Parameter environment: The variables that count before those of a file `.env` beside it.
  /// - Throws: All errors of a file that no deployment can be made of.
  package static func examine(
    _ input: TopologyInput, environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> Examined {
    try examine(
      text: input.bytes(), file: input.name,
      variables: TopologyVariables(file: input.beside(".env"), environment: environment))
  }

  /// Reads what can be read of a text.
  package static func examine(
    text: [UInt8], file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Examined {
    var (reading, place) = try TopologyReading.opened(
      text, file: file, as: .deployment, variables: variables)
    let keys = DeploymentKeys.top
    guard let deployment = keys.read(&reading, place, into: keys.start) else {
      throw TopologyErrors(reading.diagnostics)
    }
    return Examined(
      deployment: deployment, source: reading.source, diagnostics: reading.diagnostics)
  }

  private static func sound(_ examined: Examined) throws(TopologyErrors) -> Result {
    guard !examined.diagnostics.hasErrors else {
      throw TopologyErrors(examined.diagnostics.without(warnings: examined.deployment.silence))
    }
    return (examined.deployment, examined.source)
  }

  /// The JSON Schema of deployment files: the text of `topologies/deployment.schema.json`.
  package static let schema = TopologySchema.text(
    of: DeploymentKeys.top, title: "Deployment", shared: ["variable", "nodeName"])
}
