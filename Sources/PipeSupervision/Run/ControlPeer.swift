/// Who says something on a control socket: by which of the two it came, and its routing id there.
struct ControlPeer {
  enum Way: Hashable {
    /// From this host, where the runtime directory lets in its owner alone.
    case host
    /// From any, with a key.
    case network
  }

  let way: Way
  let id: [UInt8]
}
