import PipeMachines
import PipeSystem
import PipeWire

/// The contents of a deployment file: the system that starts processes, and the address or hosts of
/// each place.
///
/// A place is a name to which nodes of topology files refer with the key `place`. Source: decision
/// 0062.
public struct Deployment: Sendable {
  /// The system that starts processes.
  public enum Engine: String, CaseIterable, Codable, Hashable, Sendable {
    /// The orchestrator, on its own host.
    case local
    /// Slurm: `srun` starts the processes within one job.
    case slurm
    /// Kubernetes: an agent in each pod starts the pod's processes. `orchestrator export
    /// kubernetes` writes the manifests.
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
  /// A directory that all hosts share; `nil` uses a directory on each host.
  ///
  /// The directory contains the journals of the nodes that may move to another host.
  public var journals: String?
  /// The maximum time for which a node with ``HostLossPolicy/move`` continues to run without
  /// contact to the orchestrator. Default: 5 s.
  ///
  /// Soon after this time, the orchestrator can start the node on another host.
  public var lease: Duration
  /// With ``Engine/kubernetes``: the image of all containers, with `orchestrator` and the
  /// topology's programs.
  public var image: String?
  /// With ``Engine/kubernetes``: the namespace; `nil` uses the topology's name as a DNS label.
  public var namespace: String?
  /// With ``Engine/kubernetes``: the port at which the orchestrator listens. Default: 7300. Range:
  /// 1024…65535.
  public var port: Int
  /// With ``Engine/kubernetes``: the volume claim of every process that has a journal.
  public var storage: DeploymentStorage
  /// The codes of expected warnings about the file, which `check` does not report.
  public var silence: [Diagnostic.Code]

  /// The default port.
  public static let defaultPort = 7300

  /// The default lease.
  public static let defaultLease: Duration = .seconds(5)
  /// The permitted values of ``lease``.
  ///
  /// A lease must be longer than the time that a process needs to disconnect from its peers, and
  /// shorter than the time that `up` waits.
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

  /// Returns the place with this name; `nil` if there is none.
  public func place(_ name: String) -> Placement? {
    places.first { $0.name == name }
  }

  /// The deployment as JSON. ``DeploymentFile`` reads an equal value from this JSON.
  public var json: JSONValue { DeploymentKeys.topLevel.document(of: self).json }

  /// The deployment as YAML. ``DeploymentFile`` reads an equal value from this YAML, with the
  /// places in the same order.
  public var yaml: String { DeploymentKeys.topLevel.document(of: self).yaml }
}

extension Deployment: Equatable {
  /// Returns whether two deployments are equal. The order of their places does not matter, since
  /// places are a mapping in the file.
  public static func == (left: Deployment, right: Deployment) -> Bool {
    left.engine == right.engine && left.address == right.address
      && left.journals == right.journals && left.lease == right.lease
      && left.image == right.image && left.namespace == right.namespace && left.port == right.port
      && left.storage == right.storage && left.silence == right.silence
      && left.places.sorted { $0.name < $1.name } == right.places.sorted { $0.name < $1.name }
  }
}

/// A named place where nodes run, with its address or hosts.
///
/// With the engine `local`, a place has an address of this host. With other engines, a place has
/// hosts, given by names or labels.
public struct Placement: Hashable, Sendable {
  /// The name: `[A-Za-z0-9][A-Za-z0-9_-]{0,40}`.
  public var name: String
  /// With ``Deployment/Engine/local``: the numeric IPv4 address at which the place's nodes listen.
  public var address: String?
  /// With ``Deployment/Engine/slurm``: the hosts, by their Slurm names. The place's nodes are
  /// distributed over the hosts round-robin.
  ///
  /// With ``Deployment/Engine/kubernetes``: the nodes of the cluster on which the place's pods may
  /// run.
  public var hosts: [String]
  /// The spare hosts. If a node with ``HostLossPolicy/move`` loses its host, the node moves to a
  /// spare host first.
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

/// The volume claim of one process: its request for a persistent volume of the cluster.
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
/// The reader makes the checks that require only the file itself. `DeploymentChecker` checks the
/// deployment against the host and the topologies. Source: decision 0062.
public enum DeploymentFile {
  /// A deployment with a map of its source locations.
  public typealias Result = (deployment: Deployment, source: SourceMap)

  /// Reads a file, with variables from the environment and from a `.env` file in the same directory.
  /// - Throws: All errors of the file, in the order of the file.
  public static func read(path: String) throws(TopologyErrors) -> Result {
    try requireValid(examine(.file(path)))
  }

  /// Reads a text.
  /// - Parameters:
  ///   - file: The file's name in diagnostics.
  ///   - variables: The values of `${NAME}`. Default: the environment's variables.
  /// - Throws: All errors of the text, in the order of the text.
  public static func read(
    text: some Sequence<UInt8>, file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Result {
    try requireValid(examine(text: Array(text), file: file, variables: variables))
  }

  /// The readable part of a file, and the diagnostics of the file.
  package struct Examination: Sendable {
    package var deployment: Deployment
    package var source: SourceMap
    package var diagnostics: [Diagnostic]

    /// Returns whether the file defines a place, even if the definition is invalid.
    func definesPlace(named place: String) -> Bool { source.hasValue(at: ["places", place]) }

    /// Whether the file has the key `journals`, even if its value is invalid.
    var hasJournalsKey: Bool { source.hasValue(at: ["journals"]) }
  }

  /// Reads all valid parts of a file, for checks that can work with an incomplete deployment.
  /// - Parameter environment: The variables that override the variables of a `.env` file in the
  ///   same directory.
  /// - Throws: All errors of the file, if the file has too many errors to produce a deployment.
  package static func examine(
    _ input: TopologyInput, environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> Examination {
    try examine(
      text: input.bytes(), file: input.name,
      variables: TopologyVariables(file: input.pathBeside(".env"), environment: environment))
  }

  /// Reads all valid parts of a text.
  package static func examine(
    text: [UInt8], file: String, variables: TopologyVariables = TopologyVariables()
  ) throws(TopologyErrors) -> Examination {
    var (reading, place) = try TopologyReading.beginReading(
      text, file: file, as: .deployment, variables: variables)
    let keys = DeploymentKeys.topLevel
    guard let deployment = keys.read(&reading, place, into: keys.emptyModel) else {
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
    of: DeploymentKeys.topLevel, title: "Deployment", shared: ["variable", "nodeName"])
}
