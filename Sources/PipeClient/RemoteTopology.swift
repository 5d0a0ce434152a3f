import PipeSystem
import PipeTransport

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
