/// Keyed containers to give out once more, by the type of their keys.
///
/// What `container(keyedBy:)` returns is a box on the heap, of a type that the runtime looks up in its
/// tables: that takes longer than all that is done with it. So a reader or writer keeps its boxes. One
/// that nobody else holds any more stands for the next object with such keys; as long as somebody does,
/// an object in it has a box of its own.
struct KeptContainers {
  /// Stands for the class of the boxes, which is not known by name: they are counted, and not looked into.
  // Not `AnyObject`: whether an object of that type is held once is asked of a copy, so that it never is.
  final class Box {}

  private var keys: [ObjectIdentifier] = []
  /// What the containers consist of: a reference to a box.
  private var boxes: [Box] = []
  /// What the boxes lead to.
  private var members: [AnyObject] = []
  /// Types of keys, which are searched one by one.
  private static let most = 64

  /// The box for keys of a type that nobody holds, and what it leads to.
  mutating func next(keyedBy key: Any.Type) -> (box: Box, members: AnyObject)? {
    guard let index = keys.firstIndex(of: ObjectIdentifier(key)),
      isKnownUniquelyReferenced(&boxes[index])
    else { return nil }
    return (boxes[index], members[index])
  }

  /// Keeps the box of a container that was made, unless there is one for such keys.
  mutating func keep(_ box: Box, of members: AnyObject, keyedBy key: Any.Type) {
    let key = ObjectIdentifier(key)
    guard keys.count < Self.most, !keys.contains(key) else { return }
    keys.append(key)
    boxes.append(box)
    self.members.append(members)
  }

  mutating func removeAll() { self = KeptContainers() }
}
