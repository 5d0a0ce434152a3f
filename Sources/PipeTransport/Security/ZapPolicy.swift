import PipeWire

/// Who may connect to some sockets, by key, and under which routing ids; as a value.
///
/// A key that nobody has told of may be allowed a moment later, one that is revoked never is again.
package struct ZapPolicy: Sendable {
  /// The routing ids that the peer with some key may use.
  package enum Names: Hashable, Sendable {
    /// These, as a ROUTER reads them.
    case only(Set<[UInt8]>)
    /// Any that belongs to no pipe, coordinator or node.
    case ofClients
    /// These, and those of clients: of a monitor, which is both.
    case ofClientsAnd(Set<[UInt8]>)

    package static func only(_ names: String...) -> Names {
      .only(Set(names.map { Array($0.utf8) }))
    }

    func contains(_ name: [UInt8]) -> Bool {
      switch self {
      case .only(let names): names.contains(name)
      case .ofClients: WireName.isOfClient(name)
      case .ofClientsAnd(let names): names.contains(name) || WireName.isOfClient(name)
      }
    }
  }

  /// What becomes of a handshake.
  package enum Verdict: Hashable, Sendable {
    /// It may connect, as the member of this number.
    case member(UInt64)
    /// Not now: it tries again.
    case unknown
    /// Never: it gives up.
    case revoked
  }

  /// What becomes of a message.
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
  /// The oldest first.
  private var revoked: [PublicKey] = []

  /// How many revoked keys are remembered. An older one is unknown, which is turned away as well.
  package static let rememberedCount = 1024

  package init() {}

  /// Lets the peer with this key connect, under these names in place of the former ones.
  /// - Returns: Whether it may: a key that was revoked stays so.
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

  /// Turns the peer with this key away for good.
  /// - Returns: The number of the member that it was, if it was one.
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

  /// - Parameter name: The routing id that the message came under; `nil` where its socket has none.
  package func admission(of number: UInt64, as name: [UInt8]?) -> Admission {
    guard let member = members[number] else { return .revoked }
    guard let name else { return .admitted }
    return member.names.contains(name) ? .admitted : .foreignName
  }

  package func key(of number: UInt64) -> PublicKey? { members[number]?.key }
}
