import PipeSystem
import PipeTransport

/// Which running topology is meant, and where it runs.
package enum TopologyTarget: Sendable {
  /// The one of this name on this host; `nil` for the only one that runs.
  case local(String?)
  /// One whose orchestrator is reached over the network.
  case remote(RemoteTopology)

  /// The same; where none is named, the one of this name on this host.
  package func named(elseBy name: @autoclosure () throws -> String) rethrows -> TopologyTarget {
    if case .local(nil) = self { .local(try name()) } else { self }
  }

  /// Those of the one that runs on this host; `nil` on another one.
  /// - Throws: ``TopologyClientError`` where it does not run here.
  package var directories: RuntimeDirectories? {
    get throws {
      if case .local(let name) = self { try RunningTopology.choose(name) } else { nil }
    }
  }

  /// The one that runs on another host.
  package var remote: RemoteTopology? {
    if case .remote(let topology) = self { topology } else { nil }
  }
}

extension ParsedArguments {
  /// The running topology that is meant by `-p`, or by `--key` and `--connect`.
  /// - Throws: ``TopologyClientError/unusableKey(_:)``, also where these do not fit each other.
  package var target: TopologyTarget {
    get throws(TopologyClientError) {
      guard let key = value(Option.key.long) else {
        guard let endpoint = value(Option.connect.long) else { return .local(topology) }
        throw .unusableKey(
          "--connect needs --key FILE, a copy of mode 600 of 'client.key' in the runtime directory of the topology, "
            + "on the host of the orchestrator at '\(endpoint)': $XDG_RUNTIME_DIR/piperuntime/NAME there"
        )
      }
      let remote = try RemoteTopology(key: key, at: value(Option.connect.long))
      if let topology, topology != remote.name {
        throw .unusableKey(
          "the key file '\(key)' is of topology '\(remote.name)', and -p names '\(topology)': leave -p out"
        )
      }
      return .remote(remote)
    }
  }
}

/// A topology that runs on another host, as the key file of its clients tells.
package struct RemoteTopology: Sendable {
  /// The topology's name.
  package let name: String
  /// Where its orchestrator is reached.
  package let endpoint: String
  /// Whether that is another place than the file says.
  let isRedirected: Bool
  /// The path of the key file.
  package let path: String
  /// The clients' pair.
  let pair: CurveKeyPair
  /// The public key of the control socket.
  let control: PublicKey

  /// Reads the key file.
  /// - Parameters:
  ///   - path: A copy of the `client.key` of the run.
  ///   - endpoint: Where the orchestrator is reached from here; `nil` for where the file says that it is.
  /// - Throws: ``TopologyClientError/unusableKey(_:)``
  package init(key path: String, at endpoint: String? = nil) throws(TopologyClientError) {
    let address: ControlAddress
    do throws(KeyFileError) {
      (pair, address) = try KeyFile.readWithControl(path)
    } catch {
      throw .unusableKey("\(error)")
    }
    let place = endpoint ?? address.endpoint
    guard let control = PublicKey(address.key), NetworkAddress(place) != nil else {
      throw .unusableKey(
        "'\(place)' is no endpoint to connect to: it must be like tcp://HOST:PORT")
    }
    self.control = control
    isRedirected = place != address.endpoint
    self.path = path
    name = address.topology
    self.endpoint = place
  }

  /// Whether no other host reaches it.
  package var isOnLoopback: Bool {
    NetworkAddress(endpoint).map { $0.host.hasPrefix("127.") } ?? false
  }

  /// Where its control socket is, and by which keys it is reached.
  var place: PeerPlace { PeerPlace(endpoint, key: control, own: pair) }

  /// Why nobody has answered within this time.
  func silence(after time: Duration, _ connection: ControlConnection) -> TopologyClientError {
    if connection.hasBegun { return .unreachable(endpoint, .unfinished(after: time)) }
    if let host = NetworkAddress(endpoint)?.host, !NetworkEndpoint.isKnown(host: host) {
      return .unreachable(endpoint, .unknownHost(host))
    }
    return .unreachable(endpoint, .silent(after: time))
  }
}
