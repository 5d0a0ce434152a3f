/// One value of a topology file while it is read: where it is, and what messages call it.
struct TopologyPlace {
  var node: YAMLNode
  /// Its place for the source map.
  var path: [String]
  /// The thing that a message is about: `node 'door'`.
  var owner: String
  /// The dotted keys below the owner; empty for the owner itself.
  var key: String = ""

  /// `node 'door': 'restart.window'`
  var title: String { key.isEmpty ? owner : "\(owner): '\(key)'" }

  /// A value below this one.
  func child(_ name: String, _ value: YAMLNode) -> TopologyPlace {
    TopologyPlace(
      node: value, path: path + [name], owner: owner, key: key.isEmpty ? name : "\(key).\(name)")
  }

  /// The same value as a thing of its own.
  func named(_ owner: String) -> TopologyPlace {
    TopologyPlace(node: node, path: path, owner: owner)
  }
}
