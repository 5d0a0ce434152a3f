import PipeWire

/// The access rules of some sockets: which keys may connect, and under which routing ids. A value.
///
/// An unknown key may be allowed a moment later. A revoked key is never allowed again.
package struct ZapPolicy: Sendable {
  /// The routing ids that the peer with some key may use.
  package enum Names: Hashable, Sendable {
    /// These names, as a ROUTER reads them.
    case only(Set<[UInt8]>)
    /// Any name that belongs to no pipe, coordinator or node.
    case clientNames
    /// These names and the names of clients: for a monitor, which is both a node and a client.
    case clientNamesAnd(Set<[UInt8]>)

    package static func only(_ names: String...) -> Names {
      .only(Set(names.map { Array($0.utf8) }))
    }

    func contains(_ name: [UInt8]) -> Bool {
      switch self {
      case .only(let names): names.contains(name)
      case .clientNames: WireName.isClientName(name)
      case .clientNamesAnd(let names): names.contains(name) || WireName.isClientName(name)
      }
    }
  }

  /// The outcome of a handshake.
  package enum Verdict: Hashable, Sendable {
    /// The peer may connect as the member with this number.
    case member(UInt64)
    /// The peer may not connect now, and tries again.
    case unknown
    /// The peer may never connect, and gives up.
    case revoked
  }

  /// The outcome of a check of a message.
  package enum Admission: Hashable, CaseIterable, Sendable {
    case admitted
    /// The name belongs to another key.
    case foreignName
    /// The key was revoked since its handshake.
    case revoked
  }

  private struct Member {
    let key: PublicKey
    var names: Names
  }

  private var members: [UInt64: Member] = [:]
  private var numbers: [PublicKey: UInt64] = [:]
  private var lastNumber: UInt64 = 0
  /// The revoked keys, oldest first.
  private var revoked: [PublicKey] = []

  /// The number of revoked keys to remember. An older key is unknown, so it is rejected as well.
  package static let rememberedCount = 1024

  package init() {}

  /// Allows the peer with this key to connect, under these names instead of its former ones.
  /// - Returns: Whether the peer may connect. A revoked key stays revoked.
  @discardableResult
  package mutating func allow(_ key: PublicKey, as names: Names) -> Bool {
    if let number = numbers[key] {
      members[number]?.names = names
      return true
    }
    guard !revoked.contains(key) else { return false }
    lastNumber += 1
    members[lastNumber] = Member(key: key, names: names)
    numbers[key] = lastNumber
    return true
  }

  /// Rejects the peer with this key permanently.
  /// - Returns: The peer's member number, if it was a member.
  package mutating func revoke(_ key: PublicKey) -> UInt64? {
    let number = numbers.removeValue(forKey: key)
    if let number { members[number] = nil }
    guard !revoked.contains(key) else { return number }
    revoked.append(key)
    if revoked.count > Self.rememberedCount { revoked.removeFirst() }
    return number
  }

  package func verdict(on key: PublicKey) -> Verdict {
    if let number = numbers[key] { return .member(number) }
    return revoked.contains(key) ? .revoked : .unknown
  }

  /// - Parameter name: The message's routing id; `nil` if its socket does not know routing ids.
  package func admission(of number: UInt64, as name: [UInt8]?) -> Admission {
    guard let member = members[number] else { return .revoked }
    guard let name else { return .admitted }
    return member.names.contains(name) ? .admitted : .foreignName
  }

  package func key(of number: UInt64) -> PublicKey? { members[number]?.key }
}
