import PipeSystem
import PipeTransport

/// The running topology that a command refers to, and whether it runs on this host.
package enum TopologyTarget: Sendable {
  /// The topology with this name on this host; `nil` means the only running topology.
  case local(String?)
  /// A topology whose orchestrator is reached over the network.
  case remote(RemoteTopology)

  /// Returns this target. If the target is `local(nil)`, returns the topology on this host with the
  /// name `name`.
  package func named(defaultingTo name: @autoclosure () throws -> String) rethrows -> TopologyTarget
  {
    if case .local(nil) = self { .local(try name()) } else { self }
  }

  /// The directories of a topology on this host; `nil` for a topology on another host.
  /// - Throws: ``TopologyClientError`` if the topology is not running on this host.
  package var directories: RuntimeDirectories? {
    get throws {
      if case .local(let name) = self { try RunningTopology.choose(name) } else { nil }
    }
  }

  /// The topology on another host; `nil` if the topology runs on this host.
  package var remote: RemoteTopology? {
    if case .remote(let topology) = self { topology } else { nil }
  }
}

extension ParsedArguments {
  /// The running topology that is selected by `-p`, or by `--key` and `--connect`.
  /// - Throws: ``TopologyClientError/unusableKey(_:)``, also if the options contradict each other.
  package var target: TopologyTarget {
    get throws(TopologyClientError) {
      guard let key = value(Option.key.long) else {
        guard let endpoint = value(Option.connect.long) else { return .local(topology) }
        throw .unusableKey(
          "--connect requires --key FILE; copy 'client.key' with mode 600 from the host of the "
            + "orchestrator at '\(endpoint)', from the runtime directory of the topology: "
            + "$XDG_RUNTIME_DIR/piperuntime/NAME"
        )
      }
      let remote = try RemoteTopology(key: key, at: value(Option.connect.long))
      if let topology, topology != remote.name {
        throw .unusableKey(
          "the key file '\(key)' belongs to topology '\(remote.name)', but -p names '\(topology)'; "
            + "omit -p"
        )
      }
      return .remote(remote)
    }
  }
}

/// A topology that runs on another host, as the key file of its clients describes it.
package struct RemoteTopology: Sendable {
  /// The topology's name.
  package let name: String
  /// The endpoint of the topology's orchestrator.
  package let endpoint: String
  /// Whether the user has given another endpoint than the endpoint in the key file.
  let isRedirected: Bool
  /// The path of the key file.
  package let path: String
  /// The key pair that all clients of the topology share.
  let clientKeyPair: CurveKeyPair
  /// The public key of the control socket.
  let controlKey: PublicKey

  /// Reads the key file.
  /// - Parameters:
  ///   - path: The path of a copy of the run's `client.key`.
  ///   - endpoint: The orchestrator's endpoint as reached from this host; `nil` means the endpoint
  ///     in the file.
  /// - Throws: ``TopologyClientError/unusableKey(_:)``
  package init(key path: String, at endpoint: String? = nil) throws(TopologyClientError) {
    let address: ControlAddress
    do throws(KeyFileError) {
      (clientKeyPair, address) = try KeyFile.readWithControl(path)
    } catch {
      throw .unusableKey("\(error)")
    }
    let peerEndpoint = endpoint ?? address.endpoint
    guard let control = PublicKey(address.key), NetworkAddress(peerEndpoint) != nil else {
      throw .unusableKey(
        "'\(peerEndpoint)' is not an endpoint to connect to; the expected form is tcp://HOST:PORT")
    }
    self.controlKey = control
    isRedirected = peerEndpoint != address.endpoint
    self.path = path
    name = address.topology
    self.endpoint = peerEndpoint
  }

  /// Whether the endpoint is on the loopback interface, which other hosts cannot reach.
  package var isOnLoopback: Bool {
    NetworkAddress(endpoint).map { $0.host.hasPrefix("127.") } ?? false
  }

  /// The endpoint of the control socket, with the keys for the connection.
  var peerEndpoint: PeerEndpoint { PeerEndpoint(endpoint, key: controlKey, own: clientKeyPair) }

  /// Returns the error for an orchestrator that has not answered within this time.
  func noAnswerError(after time: Duration, _ connection: ControlConnection) -> TopologyClientError {
    if connection.hasBegun { return .unreachable(endpoint, .unfinished(after: time)) }
    if let host = NetworkAddress(endpoint)?.host, !NetworkEndpoint.canResolve(host: host) {
      return .unreachable(endpoint, .unknownHost(host))
    }
    return .unreachable(endpoint, .silent(after: time))
  }
}
