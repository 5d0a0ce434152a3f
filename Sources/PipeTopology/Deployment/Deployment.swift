import PipeMachines
import PipeSystem
import PipeWire

/// The locations of the places that topologies refer to: the contents of a deployment file.
///
/// Source: decision 0062.
public struct Deployment: Sendable {
  /// The system that starts processes.
  public enum Engine: String, CaseIterable, Codable, Hashable, Sendable {
    /// The orchestrator, on its own host.
    case local
    /// Slurm: `srun` starts the processes within one job.
    case slurm
    /// Kubernetes: an agent in each pod starts its processes. `orchestrator export kubernetes`
    /// writes the manifests.
    case kubernetes
  }

  /// The system that starts processes. Default: ``Engine/local``.
  public var engine: Engine
  /// The numeric IPv4 address at which the orchestrator and the nodes without a place listen.
  ///
  /// `nil` uses ``defaultAddress`` or, with ``Engine/slurm``, the address of the orchestrator's
  /// host.
  public var address: String?
  /// The places, in the order of the file.
  public var places: [Placement]
  /// The directory of the journals of nodes that may move, shared by all hosts; `nil` for each
  /// host's own directory.
  public var journals: String?
  /// How long a node with ``HostLossPolicy/move`` continues without the orchestrator. Default: 5 s.
  ///
  /// Soon after that the node can be replaced on another host.
  public var lease: Duration
  /// With ``Engine/kubernetes``: the image of all containers, with `orchestrator` and the
  /// topology's programs.
  public var image: String?
  /// With ``Engine/kubernetes``: the namespace; `nil` uses the topology's name as a DNS label.
  public var namespace: String?
  /// With ``Engine/kubernetes``: the port at which the orchestrator listens. Default: 7300. Range:
  /// 1024…65535.
  public var port: Int
  /// With ``Engine/kubernetes``: the volume claim of each process that keeps records.
  public var storage: DeploymentStorage
  /// The codes of expected `check` warnings about the file, which are not reported.
  public var silence: [Diagnostic.Code]

  /// The default port.
  public static let defaultPort = 7300

  /// The default lease.
  public static let defaultLease: Duration = .seconds(5)
  /// The range of leases: longer than a process takes to part from its peers, and shorter than `up`
  /// waits.
  public static let leaseRange: ClosedRange<Duration> = .seconds(2)...(.seconds(30))

  /// The default address, for a deployment on one host.
  public static let defaultAddress = "127.0.0.1"

  /// Makes a deployment.
  public init(
    engine: Engine = .local, address: String? = nil, places: [Placement] = [],
    journals: String? = nil, lease: Duration = Deployment.defaultLease, image: String? = nil,
    namespace: String? = nil, port: Int = Deployment.defaultPort,
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

  /// Returns the place with the given name, or `nil`.
  public func place(_ name: String) -> Placement? {
    places.first { $0.name == name }
  }

  /// The deployment as JSON; ``DeploymentFile`` reads it back to an equal value.
  public var json: JSONValue { DeploymentKeys.top.written(self).json }

  /// The deployment as YAML; ``DeploymentFile`` reads it back to an equal value, in the same order.
  public var yaml: String { DeploymentKeys.top.written(self).yaml }
}

extension Deployment: Equatable {
  /// Returns whether two deployments are equal, ignoring the order of the places, which are a
  /// mapping in the file.
  public static func == (left: Deployment, right: Deployment) -> Bool {
    left.engine == right.engine && left.address == right.address
      && left.journals == right.journals && left.lease == right.lease
      && left.image == right.image && left.namespace == right.namespace && left.port == right.port
      && left.storage == right.storage && left.silence == right.silence
      && left.places.sorted { $0.name < $1.name } == right.places.sorted { $0.name < $1.name }
  }
}

/// A place that nodes refer to by name, with its location.
///
/// The location is an address of this host, or the hosts of an engine, by their names or labels.
public struct Placement: Hashable, Sendable {
  /// The name: `[A-Za-z0-9][A-Za-z0-9_-]{0,40}`.
  public var name: String
  /// With ``Deployment/Engine/local``: the numeric IPv4 address at which the place's nodes listen.
  public var address: String?
  /// With ``Deployment/Engine/slurm``: the hosts, by their Slurm names; nodes are assigned to them
  /// round-robin.
  ///
  /// With ``Deployment/Engine/kubernetes``: the nodes of the cluster on which the place's pods may
  /// run.
  public var hosts: [String]
  /// Spare hosts, which are preferred for nodes with ``HostLossPolicy/move`` that lose their host.
  ///
  /// A submitted job includes the spare hosts.
  public var spare: [String]
  /// With ``Deployment/Engine/kubernetes``, instead of ``hosts``: the labels of cluster nodes on
  /// which the pods may run.
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

/// The claim of one process on the cluster's storage: a persistent volume.
public struct DeploymentStorage: Hashable, Sendable {
  /// The size in the notation of Kubernetes. Default: `1Gi`.
  public var size: String
  /// The storage class; `nil` uses the cluster's default class.
  public var className: String?

  /// Makes a claim.
  public init(size: String = "1Gi", className: String? = nil) {
    self.size = size
    self.className = className
  }
}

/// Reads deployment files: YAML, which includes JSON.
///
/// The reader checks everything that depends on the file alone; other checkers compare it with its
/// topologies and its host.
/// Source: decision 0062.
public enum DeploymentFile {
  /// A deployment with a map of its source locations.
  public typealias Result = (deployment: Deployment, source: SourceMap)

  /// Reads a file, with variables from the environment and from a `.env` file in the same directory.
  /// - Throws: All errors of the file, in its order.
  public static func read(path: String) throws(TopologyErrors) -> Result {
    try requireValid(examine(.file(path)))
  }

  /// Reads a text.
  /// - Parameters:
  ///   - file: The file's name in diagnostics.
  ///   - variables: The values of `${NAME}`. Default: the environment's variables.
  /// - Throws: All errors of the text, in its order.
  public static func read(
    text: some Sequence<UInt8>, file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Result {
    try requireValid(examine(text: Array(text), file: file, variables: variables))
  }

  /// The readable part of a file, and its diagnostics.
  package struct Examination: Sendable {
    package var deployment: Deployment
    package var source: SourceMap
    package var diagnostics: [Diagnostic]

    /// Returns whether the file names a place, even if the place could not be read.
    func names(_ place: String) -> Bool { source.has(["places", place]) }

    /// Whether the file has `journals`, even if the value could not be read.
    var hasJournalsKey: Bool { source.has(["journals"]) }
  }

  /// Reads as much of a file as possible, for checks that work with a part of it.
  /// - Parameter environment: The variables that override the variables of a `.env` file in the same
  ///   directory.
  /// - Throws: All errors of a file that no deployment can be made of.
  package static func examine(
    _ input: TopologyInput, environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> Examination {
    try examine(
      text: input.bytes(), file: input.name,
      variables: TopologyVariables(file: input.beside(".env"), environment: environment))
  }

  /// Reads as much of a text as possible.
  package static func examine(
    text: [UInt8], file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Examination {
    var (reading, place) = try TopologyReading.beginReading(
      text, file: file, as: .deployment, variables: variables)
    let keys = DeploymentKeys.top
    guard let deployment = keys.read(&reading, place, into: keys.start) else {
      throw TopologyErrors(reading.diagnostics)
    }
    return Examination(
      deployment: deployment, source: reading.source, diagnostics: reading.diagnostics)
  }

  private static func requireValid(_ examined: Examination) throws(TopologyErrors) -> Result {
    guard !examined.diagnostics.hasErrors else {
      throw TopologyErrors(examined.diagnostics.without(warnings: examined.deployment.silence))
    }
    return (examined.deployment, examined.source)
  }

  /// The JSON Schema of deployment files: the text of `topologies/deployment.schema.json`.
  package static let schema = TopologySchema.text(
    of: DeploymentKeys.top, title: "Deployment", shared: ["variable", "nodeName"])
}
