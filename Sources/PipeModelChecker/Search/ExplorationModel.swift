/// A product of components in numbers: what an ``Exploration`` searches.
///
/// A component has local states 0, 1, …. A *vector* has a role for each component that takes part in it; it
/// is enabled where each of them permits it, and moves all of them at once. What is not deterministic is
/// several vectors.
///
/// Tables may have holes. The search says which cells it needs (``Exploration/Advance/demands(_:)``),
/// somebody fills them, and it goes on: so local states, and vectors, may be found while searching. The
/// contents of queues are filled in by the search itself.
package struct ExplorationModel: Sendable {
  /// Where a vector leads in one local state of one component.
  package enum Cell: Hashable, Sendable {
    case unknown
    case blocked
    case leads(to: Int)
  }

  /// The part of a component in a vector.
  package struct Role: Sendable {
    package let component: Int
    /// For each local state where it leads, `Role.blocked` or `Role.unknown`; what is missing is unknown.
    private(set) var targets: [Int32]
    let operation: QueueOperation?
    var isUnchanged = false

    static let blocked: Int32 = -1
    static let unknown: Int32 = -2

    /// A cell for each local state; those that are missing are unknown.
    package static func table(_ component: Int, _ cells: [Cell]) -> Role {
      var role = Role(component: component, targets: [], operation: nil)
      for (state, cell) in cells.enumerated() { role.set(cell, in: state) }
      return role
    }

    /// What is done to a queue.
    package static func queue(_ component: Int, _ operation: QueueOperation) -> Role {
      Role(component: component, targets: [], operation: operation)
    }

    /// Permits the vector in every local state, those included that are still to be found, and changes nothing.
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
    /// The observation that holds where the queue is full.
    var fullness: Int?
  }

  /// A cell, or a local state of an observation, that may be another one than before.
  enum Change {
    case cell(vector: Int, role: Int, state: Int)
    case observed(observation: Int, component: Int, state: Int)
  }

  private(set) var components: [Component] = []
  private(set) var vectors: [Vector] = []
  /// For each observation the local states of each component that it speaks of.
  private(set) var observations: [[Int: Set<Int>]] = []
  /// What has changed since the last time that a search took it.
  private(set) var changes: [Change] = []
  /// Whether something was added since then that is no local state.
  private(set) var isExtended = false

  package init() {}

  package var componentCount: Int { components.count }
  package var vectorCount: Int { vectors.count }

  /// The number of local states that are known of a component.
  package func stateCount(of component: Int) -> Int { components[component].stateCount }

  /// What a queue holds in a local state, or `nil` where the component is no queue.
  package func contents(of component: Int, in state: Int) -> [Int]? {
    components[component].queue?.contents[state]
  }

  /// Adds a component whose local states are in tables, and returns its number.
  package mutating func addComponent(stateCount: Int = 1, initial: Int = 0) -> Int {
    isExtended = true
    components.append(Component(initial: initial, stateCount: max(stateCount, initial + 1)))
    return components.count - 1
  }

  /// Adds a queue, and returns its number. Local state 0 is what it holds at the start.
  package mutating func addQueue(capacity: Int, contents: [Int] = []) -> Int {
    let component = addComponent()
    components[component].queue = QueueContents(capacity: capacity, initial: contents)
    return component
  }

  /// The local state of a queue that holds this, which may be new; `nil` where the component is no queue.
  package mutating func localState(of component: Int, holding contents: [Int]) -> Int? {
    guard var queue = components[component].queue else { return nil }
    components[component].queue = nil
    let known = queue.contents.count
    let number = queue.number(of: contents)
    components[component].queue = queue
    take(component, newFrom: known)
    return number
  }

  /// Adds a vector, and returns its number.
  /// - Parameter isFromOutside: Whether it needs somebody outside: where only such vectors are enabled, a
  ///   state is stuck.
  /// - Throws: ``ExplorationModelError``, and leaves the model as it was.
  package mutating func addVector(_ roles: [Role], isFromOutside: Bool = false) throws -> Int {
    var taken: Set<Int> = []
    for role in roles {
      guard components.indices.contains(role.component) else {
        throw ExplorationModelError.unknownComponent(role.component)
      }
      guard taken.insert(role.component).inserted else {
        throw ExplorationModelError.componentTwice(role.component)
      }
      let isQueue = components[role.component].queue != nil
      guard role.isUnchanged || (role.operation != nil) == isQueue else {
        throw ExplorationModelError.roleOfAnotherKind(role.component)
      }
    }
    isExtended = true
    for role in roles {
      grow(role.component, to: Int(role.targets.max() ?? 0) + 1)
    }
    vectors.append(Vector(roles: roles, isFromOutside: isFromOutside))
    return vectors.count - 1
  }

  /// Fills one cell. A target that is not there yet is made.
  /// - Throws: ``ExplorationModelError`` where the component has no table in this vector.
  package mutating func setCell(
    of component: Int, in state: Int, for vector: Int, to cell: Cell
  ) throws {
    guard components.indices.contains(component) else {
      throw ExplorationModelError.unknownComponent(component)
    }
    guard
      let role = vectors[vector].roles.firstIndex(where: { $0.component == component }),
      components[component].queue == nil
    else { throw ExplorationModelError.roleOfAnotherKind(component) }
    // A search has no place for a hole where there was none.
    let wasKnown = vectors[vector].roles[role].target(in: state) != Role.unknown
    if wasKnown || cell == .unknown { isExtended = true }
    vectors[vector].roles[role].set(cell, in: state)
    changes.append(.cell(vector: vector, role: role, state: state))
    grow(component, to: state + 1)
    if case .leads(let target) = cell { grow(component, to: target + 1) }
  }

  /// Adds a combination of local states that is looked out for, and returns its number. It holds in a state
  /// where each component that it names is in one of its local states.
  package mutating func addObservation(_ sets: [Int: Set<Int>]) throws -> Int {
    if let stranger = sets.keys.first(where: { !components.indices.contains($0) }) {
      throw ExplorationModelError.unknownComponent(stranger)
    }
    isExtended = true
    observations.append(sets)
    return observations.count - 1
  }

  /// Adds an observation that holds where a queue is full, whatever contents of it are met, and returns its number.
  /// - Throws: ``ExplorationModelError`` where the component is no queue.
  package mutating func addObservation(ofFullQueue component: Int) throws -> Int {
    guard components.indices.contains(component) else {
      throw ExplorationModelError.unknownComponent(component)
    }
    guard let queue = components[component].queue else {
      throw ExplorationModelError.roleOfAnotherKind(component)
    }
    let full = queue.contents.indices.filter(queue.isFull(in:))
    let number = try addObservation([component: Set(full)])
    components[component].fullness = number
    return number
  }

  /// Lets an observation hold in one more local state of a component, as when that state was just found.
  package mutating func include(_ state: Int, of component: Int, in observation: Int) {
    if observations[observation][component] == nil { isExtended = true }
    observations[observation][component, default: []].insert(state)
    changes.append(.observed(observation: observation, component: component, state: state))
  }

  /// Fills in what the vectors that are known do to a queue with these contents.
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

  /// Makes room for the contents of a queue that were not known before, and observes those that fill it.
  private mutating func take(_ component: Int, newFrom known: Int) {
    guard let queue = components[component].queue else { return }
    grow(component, to: queue.contents.count)
    guard let fullness = components[component].fullness else { return }
    for state in known..<queue.contents.count where queue.isFull(in: state) {
      include(state, of: component, in: fullness)
    }
  }

  /// Fills a cell of a queue.
  mutating func set(_ cell: Cell, ofRole role: Int, in vector: Int, _ state: Int) {
    vectors[vector].roles[role].set(cell, in: state)
    changes.append(.cell(vector: vector, role: role, state: state))
  }

  /// The memory of what grows with the contents of queues. Unit: bytes.
  var queueByteCount: Int { components.reduce(0) { $0 + ($1.queue?.byteCount ?? 0) } }

  /// Whether local states of a component may still be found: it is a queue, or a table has a hole.
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

  /// All components, those that take part in the same vectors near to each other.
  var componentsByVector: [Int] {
    var met: Set<Int> = []
    let taking = vectors.flatMap { $0.roles.map(\.component) }
    return (taking + components.indices).filter { met.insert($0).inserted }
  }

  /// Takes note that somebody knows all that has changed until now.
  mutating func forgetChanges() {
    changes = []
    isExtended = false
  }

  private mutating func grow(_ component: Int, to count: Int) {
    components[component].stateCount = max(components[component].stateCount, count)
  }
}

/// Why a model does not take a vector, a cell or an observation.
package enum ExplorationModelError: Error, Equatable {
  case unknownComponent(Int)
  /// A component has one role in a vector: a step moves it once.
  case componentTwice(Int)
  /// A queue has an operation, every other component a table.
  case roleOfAnotherKind(Int)
}

extension ExplorationModel {
  /// The model in Promela, so that SPIN can be asked the same: it stores as many states, and finds as an
  /// invalid end state what is a deadlock here.
  ///
  /// A cell that is not known is written as one that blocks. The contents of queues are numbers, as many as
  /// were found.
  /// - Parameters:
  ///   - componentNames: For each component an identifier of Promela. Missing ones are `c0`, `c1`, ….
  ///   - vectorNames: For each vector what stands beside it as a comment. Missing ones are numbers.
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
      // Behind the end of a comment, or a line, a name would be read as Promela.
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
