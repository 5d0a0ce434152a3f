/// A product of numbered components: the input of an ``Exploration``.
///
/// A component has local states 0, 1, …. A *vector* has a role for each component that takes part
/// in it. It is enabled if all its roles permit it, and moves all its components at once. A
/// nondeterministic step has several vectors.
///
/// Tables may have unknown cells. The search demands the cells that it needs
/// (``Exploration/Advance/demands(_:)``), the caller fills them, and the search continues. So local
/// states and vectors may be found during the search. The search itself fills in the contents of
/// queues.
package struct ExplorationModel: Sendable {
  /// The target of a vector in one local state of one component.
  package enum Cell: Hashable, Sendable {
    case unknown
    case blocked
    case leads(to: Int)
  }

  /// The role of a component in a vector.
  package struct Role: Sendable {
    package let component: Int
    /// For each local state its target, `Role.blocked` or `Role.unknown`; missing entries are unknown.
    private(set) var targets: [Int32]
    let operation: QueueOperation?
    var isUnchanged = false

    static let blocked: Int32 = -1
    static let unknown: Int32 = -2

    /// Makes a role with a cell for each local state; missing cells are unknown.
    package static func table(_ component: Int, _ cells: [Cell]) -> Role {
      var role = Role(component: component, targets: [], operation: nil)
      for (state, cell) in cells.enumerated() { role.set(cell, in: state) }
      return role
    }

    /// Makes a role with an operation on a queue.
    package static func queue(_ component: Int, _ operation: QueueOperation) -> Role {
      Role(component: component, targets: [], operation: operation)
    }

    /// Makes a role that permits the vector in every local state, even in local states found later,
    /// and changes nothing.
    package static func unchanged(_ component: Int) -> Role {
      Role(component: component, targets: [], operation: nil, isUnchanged: true)
    }

    func target(in state: Int) -> Int32 {
      if isUnchanged { return Int32(state) }
      return state < targets.count ? targets[state] : Role.unknown
    }

    fileprivate mutating func set(_ cell: Cell, in state: Int) {
      while targets.count <= state { targets.append(Role.unknown) }
      targets[state] =
        switch cell {
        case .unknown: Role.unknown
        case .blocked: Role.blocked
        case .leads(let target): Int32(target)
        }
    }
  }

  struct Vector: Sendable {
    var roles: [Role]
    let isFromOutside: Bool
  }

  struct Component: Sendable {
    let initial: Int
    var stateCount: Int
    var queue: QueueContents?
    /// The observation that holds while the queue is full.
    var fullObservation: Int?
  }

  /// A change of a cell, or of a local state in an observation.
  enum Change {
    case cell(vector: Int, role: Int, state: Int)
    case observed(observation: Int, component: Int, state: Int)
  }

  private(set) var components: [Component] = []
  private(set) var vectors: [Vector] = []
  /// For each observation, the local states of each component in it.
  private(set) var observations: [[Int: Set<Int>]] = []
  /// The changes since a search last applied them.
  private(set) var changes: [Change] = []
  /// Whether anything other than local states was added since then.
  private(set) var isExtended = false

  package init() {}

  package var componentCount: Int { components.count }
  package var vectorCount: Int { vectors.count }

  /// Returns the number of known local states of a component.
  package func stateCount(of component: Int) -> Int { components[component].stateCount }

  /// Returns the contents of a queue in a local state, or `nil` if the component is not a queue.
  package func contents(of component: Int, in state: Int) -> [Int]? {
    components[component].queue?.contents[state]
  }

  /// Adds a component whose local states are in tables; returns its number.
  package mutating func addComponent(stateCount: Int = 1, initial: Int = 0) -> Int {
    isExtended = true
    components.append(Component(initial: initial, stateCount: max(stateCount, initial + 1)))
    return components.count - 1
  }

  /// Adds a queue; returns its number. Local state 0 is its initial contents.
  package mutating func addQueue(capacity: Int, contents: [Int] = []) -> Int {
    let component = addComponent()
    components[component].queue = QueueContents(capacity: capacity, initial: contents)
    return component
  }

  /// Returns the local state of a queue for the given contents, and adds one if they are new; `nil`
  /// if the component is not a queue.
  package mutating func localState(of component: Int, holding contents: [Int]) -> Int? {
    guard var queue = components[component].queue else { return nil }
    components[component].queue = nil
    let known = queue.contents.count
    let number = queue.number(of: contents)
    components[component].queue = queue
    take(component, newFrom: known)
    return number
  }

  /// Adds a vector; returns its number.
  /// - Parameter isFromOutside: Whether the vector needs an event from outside. A state in which
  ///   only such vectors are enabled is stuck.
  /// - Throws: ``ExplorationModelError``; the model is then unchanged.
  package mutating func addVector(_ roles: [Role], isFromOutside: Bool = false) throws -> Int {
    var taken: Set<Int> = []
    for role in roles {
      guard components.indices.contains(role.component) else {
        throw ExplorationModelError.unknownComponent(role.component)
      }
      guard taken.insert(role.component).inserted else {
        throw ExplorationModelError.duplicateComponent(role.component)
      }
      let isQueue = components[role.component].queue != nil
      guard role.isUnchanged || (role.operation != nil) == isQueue else {
        throw ExplorationModelError.roleKindMismatch(role.component)
      }
    }
    isExtended = true
    for role in roles {
      grow(role.component, to: Int(role.targets.max() ?? 0) + 1)
    }
    vectors.append(Vector(roles: roles, isFromOutside: isFromOutside))
    return vectors.count - 1
  }

  /// Fills one cell, and adds its target if that does not exist.
  /// - Throws: ``ExplorationModelError`` if the component has no table in this vector.
  package mutating func setCell(
    of component: Int, in state: Int, for vector: Int, to cell: Cell
  ) throws {
    guard components.indices.contains(component) else {
      throw ExplorationModelError.unknownComponent(component)
    }
    guard
      let role = vectors[vector].roles.firstIndex(where: { $0.component == component }),
      components[component].queue == nil
    else { throw ExplorationModelError.roleKindMismatch(component) }
    // A compiled model cannot replace a known cell or add an unknown one, so it must be compiled again.
    let wasKnown = vectors[vector].roles[role].target(in: state) != Role.unknown
    if wasKnown || cell == .unknown { isExtended = true }
    vectors[vector].roles[role].set(cell, in: state)
    changes.append(.cell(vector: vector, role: role, state: state))
    grow(component, to: state + 1)
    if case .leads(let target) = cell { grow(component, to: target + 1) }
  }

  /// Adds a combination of local states to watch for; returns the number of the observation.
  ///
  /// The observation holds in a state if each of its components is in one of the given local
  /// states.
  package mutating func addObservation(_ sets: [Int: Set<Int>]) throws -> Int {
    if let missingComponent = sets.keys.first(where: { !components.indices.contains($0) }) {
      throw ExplorationModelError.unknownComponent(missingComponent)
    }
    isExtended = true
    observations.append(sets)
    return observations.count - 1
  }

  /// Adds an observation that holds while a queue is full, even with contents found later; returns
  /// its number.
  /// - Throws: ``ExplorationModelError`` if the component is not a queue.
  package mutating func addObservation(ofFullQueue component: Int) throws -> Int {
    guard components.indices.contains(component) else {
      throw ExplorationModelError.unknownComponent(component)
    }
    guard let queue = components[component].queue else {
      throw ExplorationModelError.roleKindMismatch(component)
    }
    let full = queue.contents.indices.filter(queue.isFull(in:))
    let number = try addObservation([component: Set(full)])
    components[component].fullObservation = number
    return number
  }

  /// Adds a local state of a component to an observation, for example one that was just found.
  package mutating func include(_ state: Int, of component: Int, in observation: Int) {
    if observations[observation][component] == nil { isExtended = true }
    observations[observation][component, default: []].insert(state)
    changes.append(.observed(observation: observation, component: component, state: state))
  }

  /// Computes the effects of the known vectors on a queue with the contents of a local state.
  mutating func fillQueue(_ component: Int, in state: Int) {
    guard var queue = components[component].queue else { return }
    let known = queue.contents.count
    components[component].queue = nil
    for vector in vectors.indices {
      for role in vectors[vector].roles.indices
      where vectors[vector].roles[role].component == component {
        guard let operation = vectors[vector].roles[role].operation else { continue }
        let target = queue.number(after: operation, in: state)
        vectors[vector].roles[role].set(target.map { .leads(to: $0) } ?? .blocked, in: state)
        changes.append(.cell(vector: vector, role: role, state: state))
      }
    }
    components[component].queue = queue
    take(component, newFrom: known)
  }

  /// Adds local states for the new contents of a queue, and observes contents that fill it.
  private mutating func take(_ component: Int, newFrom known: Int) {
    guard let queue = components[component].queue else { return }
    grow(component, to: queue.contents.count)
    guard let fullObservation = components[component].fullObservation else { return }
    for state in known..<queue.contents.count where queue.isFull(in: state) {
      include(state, of: component, in: fullObservation)
    }
  }

  /// Sets a cell of a queue.
  mutating func set(_ cell: Cell, ofRole role: Int, in vector: Int, _ state: Int) {
    vectors[vector].roles[role].set(cell, in: state)
    changes.append(.cell(vector: vector, role: role, state: state))
  }

  /// The memory that grows with the contents of queues. Unit: bytes.
  var queueByteCount: Int { components.reduce(0) { $0 + ($1.queue?.byteCount ?? 0) } }

  /// Returns whether more local states of a component may be found: it is a queue, or has an
  /// unknown cell.
  func isGrowing(_ component: Int) -> Bool {
    components[component].queue != nil
      || vectors.contains { vector in
        vector.roles.contains { role in
          role.component == component && !role.isUnchanged
            && (role.targets.count < components[component].stateCount
              || role.targets.contains(Role.unknown))
        }
      }
  }

  /// All components, with components of the same vectors next to each other.
  var componentsByVector: [Int] {
    var met: Set<Int> = []
    let participating = vectors.flatMap { $0.roles.map(\.component) }
    return (participating + components.indices).filter { met.insert($0).inserted }
  }

  /// Clears the changes after a search has applied them.
  mutating func clearChanges() {
    changes = []
    isExtended = false
  }

  private mutating func grow(_ component: Int, to count: Int) {
    components[component].stateCount = max(components[component].stateCount, count)
  }
}

/// The reason why a model rejects a vector, a cell or an observation.
package enum ExplorationModelError: Error, Equatable {
  case unknownComponent(Int)
  /// The component has two roles in a vector, but a step moves a component only once.
  case duplicateComponent(Int)
  /// A queue needs an operation, and every other component a table.
  case roleKindMismatch(Int)
}

extension ExplorationModel {
  /// Returns the model in Promela, so that SPIN can check it.
  ///
  /// SPIN stores the same number of states, and reports a deadlock as an invalid end state. An
  /// unknown cell is written as a blocking cell. The contents of queues are numbered, in the order
  /// in which they were found.
  /// - Parameters:
  ///   - componentNames: A Promela identifier for each component. Missing names are `c0`, `c1`, ….
  ///   - vectorNames: A comment for each vector. Missing names are numbers.
  package func promela(componentNames: [String] = [], vectorNames: [String] = []) -> String {
    let names = components.indices.map {
      $0 < componentNames.count ? componentNames[$0] : "c\($0)"
    }
    var lines = zip(names, components).map { name, component in
      let type = component.stateCount <= 256 ? "byte" : "int"
      return "\(type) \(name) = \(component.initial);"
    }
    lines += ["", "active proctype product() {", "  do"]
    for (number, vector) in vectors.enumerated() {
      // A name that ended the comment, or the line, would be parsed as Promela.
      let name = (number < vectorNames.count ? vectorNames[number] : "\(number)")
        .map { "*/\n\r".contains($0) ? "_" : String($0) }.joined()
      lines.append("  :: d_step { /* \(name) */")
      let moving = vector.roles.filter { !$0.isUnchanged }
      let roles = moving.map { role in
        role.targets.enumerated().filter { $0.element >= 0 }.map { ($0.offset, Int($0.element)) }
      }
      let guards = zip(moving, roles).map { role, cells in
        let states = cells.map { "\(names[role.component]) == \($0.0)" }
        return states.isEmpty ? "false" : "(\(states.joined(separator: " || ")))"
      }
      lines.append("       \(guards.isEmpty ? "true" : guards.joined(separator: " && ")) ->")
      for (role, cells) in zip(moving, roles) where cells.contains(where: { $0.0 != $0.1 }) {
        let name = names[role.component]
        let cases = cells.map { ":: \(name) == \($0.0) -> \(name) = \($0.1)" }
        lines.append("       if \(cases.joined(separator: " ")) fi;")
      }
      lines.append("       skip }")
    }
    lines += ["  od", "}"]
    return lines.joined(separator: "\n") + "\n"
  }
}
