import PipeWire

/// The access rules of a gate: which keys may connect, and which routing ids they may use.
///
/// An unknown key may be allowed later. A revoked key is never allowed again.
package struct ZapPolicy: Sendable {
  /// The routing ids that a peer may use.
  package enum AllowedRoutingIDs: Hashable, Sendable {
    /// The listed routing ids, as bytes.
    case only(Set<[UInt8]>)
    /// All routing ids except the names of pipes, coordinators and nodes.
    case clientNames
    /// The listed routing ids and all routing ids of `clientNames`, for a monitor: a monitor is
    /// both a node and a client.
    case clientNamesAnd(Set<[UInt8]>)

    package static func only(_ routingIDs: String...) -> AllowedRoutingIDs {
      .only(Set(routingIDs.map { Array($0.utf8) }))
    }

    func contains(_ name: [UInt8]) -> Bool {
      switch self {
      case .only(let routingIDs): routingIDs.contains(name)
      case .clientNames: WireName.isClientName(name)
      case .clientNamesAnd(let routingIDs): routingIDs.contains(name) || WireName.isClientName(name)
      }
    }
  }

  /// The outcome of a handshake.
  package enum Verdict: Hashable, Sendable {
    /// The peer may connect as the member with this number.
    case member(UInt64)
    /// The peer may not connect yet, and tries again.
    case unknown
    /// The peer may never connect, and gives up.
    case revoked
  }

  /// The outcome of checking a message.
  package enum Admission: Hashable, CaseIterable, Sendable {
    case admitted
    /// The peer may not use this routing id.
    case foreignName
    /// The key was revoked after the handshake.
    case revoked
  }

  private struct Member {
    let key: PublicKey
    var allowedRoutingIDs: AllowedRoutingIDs
  }

  private var members: [UInt64: Member] = [:]
  private var memberNumbers: [PublicKey: UInt64] = [:]
  private var lastNumber: UInt64 = 0
  /// The revoked keys, oldest first.
  private var revokedKeys: [PublicKey] = []

  /// The number of revoked keys to remember. Older revoked keys count as unknown keys, and are
  /// therefore rejected as well.
  package static let maximumRevokedKeyCount = 1024

  package init() {}

  /// Allows the peer with this key to connect and to use the routing ids `routingIDs`. They replace
  /// the routing ids that an earlier call has allowed.
  /// - Returns: Whether the peer may connect; `false` for a revoked key, which stays revoked.
  @discardableResult
  package mutating func allow(_ key: PublicKey, as routingIDs: AllowedRoutingIDs) -> Bool {
    if let number = memberNumbers[key] {
      members[number]?.allowedRoutingIDs = routingIDs
      return true
    }
    guard !revokedKeys.contains(key) else { return false }
    lastNumber += 1
    members[lastNumber] = Member(key: key, allowedRoutingIDs: routingIDs)
    memberNumbers[key] = lastNumber
    return true
  }

  /// Rejects the peer with this key permanently.
  /// - Returns: The peer's member number, if it was a member.
  package mutating func revoke(_ key: PublicKey) -> UInt64? {
    let number = memberNumbers.removeValue(forKey: key)
    if let number { members[number] = nil }
    guard !revokedKeys.contains(key) else { return number }
    revokedKeys.append(key)
    if revokedKeys.count > Self.maximumRevokedKeyCount { revokedKeys.removeFirst() }
    return number
  }

  package func verdict(on key: PublicKey) -> Verdict {
    if let number = memberNumbers[key] { return .member(number) }
    return revokedKeys.contains(key) ? .revoked : .unknown
  }

  /// Checks whether the member may send a message with the routing id.
  /// - Parameter name: The message's routing id; `nil` if the socket's type has no routing ids.
  package func admission(of number: UInt64, as name: [UInt8]?) -> Admission {
    guard let member = members[number] else { return .revoked }
    guard let name else { return .admitted }
    return member.allowedRoutingIDs.contains(name) ? .admitted : .foreignName
  }

  package func key(of number: UInt64) -> PublicKey? { members[number]?.key }
}
