/// The input of an ``Exploration``: a model of a system as a product of numbered components.
///
/// A component has local states, which are numbered 0, 1, …. A *vector* is a possible step that
/// several components take together, and a *role* is the part of one component in a vector. The
/// vector is enabled if all its roles permit it, and it then moves all its components at once. A
/// nondeterministic step is represented by several vectors.
///
/// A role is a table with a *cell* for each local state of the component. Cells may be unknown at
/// first: the search demands an unknown cell when necessary (``Exploration/Advance/demands(_:)``),
/// the caller fills the cell, and the search continues. So local states and vectors may be found
/// during the search. The search itself fills the cells of queues.
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
    /// For each local state: the target, `Role.blockedTarget` or `Role.unknownTarget`. Missing
    /// entries are unknown.
    private(set) var targets: [Int32]
    let operation: QueueOperation?
    var isUnchanged = false

    static let blockedTarget: Int32 = -1
    static let unknownTarget: Int32 = -2

    /// Makes a role with a table that has a cell for each local state. Missing cells are unknown.
    package static func table(_ component: Int, _ cells: [Cell]) -> Role {
      var role = Role(component: component, targets: [], operation: nil)
      for (state, cell) in cells.enumerated() { role.set(cell, in: state) }
      return role
    }

    /// Makes a role of a queue, with the vector's effect on the queue's contents.
    package static func queue(_ component: Int, _ operation: QueueOperation) -> Role {
      Role(component: component, targets: [], operation: operation)
    }

    /// Makes a role that permits the vector in every local state and changes nothing. This includes
    /// local states that are found later.
    package static func unchanged(_ component: Int) -> Role {
      Role(component: component, targets: [], operation: nil, isUnchanged: true)
    }

    func target(in state: Int) -> Int32 {
      if isUnchanged { return Int32(state) }
      return state < targets.count ? targets[state] : Role.unknownTarget
    }

    fileprivate mutating func set(_ cell: Cell, in state: Int) {
      while targets.count <= state { targets.append(Role.unknownTarget) }
      targets[state] =
        switch cell {
        case .unknown: Role.unknownTarget
        case .blocked: Role.blockedTarget
        case .leads(let target): Int32(target)
        }
    }
  }

  struct Vector: Sendable {
    var roles: [Role]
    let isFromOutside: Bool
  }

  struct Component: Sendable {
    let initialState: Int
    var stateCount: Int
    var queue: QueueContents?
    /// The observation that holds while the queue is full.
    var fullObservation: Int?
  }

  /// A filled cell, or a local state that was added to an observation.
  enum Change {
    case cell(vector: Int, role: Int, state: Int)
    case observed(observation: Int, component: Int, state: Int)
  }

  private(set) var components: [Component] = []
  private(set) var vectors: [Vector] = []
  /// For each observation, the local states in which the observation may hold, by component.
  private(set) var observations: [[Int: Set<Int>]] = []
  /// The symmetries. Together with the identity, they form a group: see ``Symmetry``.
  private(set) var symmetries: [Symmetry] = []
  /// The changes since the last call of ``clearChanges()``.
  private(set) var changes: [Change] = []
  /// Whether components, vectors or observations were added since the last call of ``clearChanges()``.
  private(set) var isExtended = false

  package init() {}

  package var componentCount: Int { components.count }
  package var vectorCount: Int { vectors.count }

  /// Returns the number of known local states of a component.
  package func stateCount(of component: Int) -> Int { components[component].stateCount }

  /// Returns the contents of a queue in a local state; `nil` if the component is not a queue.
  package func contents(of component: Int, in state: Int) -> [Int]? {
    components[component].queue?.contents[state]
  }

  /// Adds a component that is not a queue, and returns its number.
  package mutating func addComponent(stateCount: Int = 1, initial: Int = 0) -> Int {
    isExtended = true
    components.append(Component(initialState: initial, stateCount: max(stateCount, initial + 1)))
    return components.count - 1
  }

  /// Adds a queue, and returns its number. Local state 0 represents the initial contents.
  package mutating func addQueue(capacity: Int, contents: [Int] = []) -> Int {
    let component = addComponent()
    components[component].queue = QueueContents(capacity: capacity, initial: contents)
    return component
  }

  /// Sets the keys of a symbol, before the symbol is in the queue. The keys permit the symbol to be
  /// removed before symbols that were appended earlier.
  ///
  /// A symmetry must map symbols with equal keys to symbols with equal keys.
  package mutating func setKeys(ofSymbol symbol: Int, in queue: Int, to keys: SymbolKeys) {
    components[queue].queue?.setKeys(ofSymbol: symbol, to: keys)
  }

  /// Returns the local state of a queue with the given contents. Adds a local state if the contents
  /// are new. Returns `nil` if the component is not a queue.
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
  /// - Parameter isFromOutside: Whether the vector requires an event from outside. A state in which
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

  /// Fills one cell. Adds the target local state if it does not exist.
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
    // A compiled model can only replace an unknown cell by a known cell. For any other change, the
    // model must be compiled again.
    let wasKnown = vectors[vector].roles[role].target(in: state) != Role.unknownTarget
    if wasKnown || cell == .unknown { isExtended = true }
    vectors[vector].roles[role].set(cell, in: state)
    changes.append(.cell(vector: vector, role: role, state: state))
    grow(component, to: state + 1)
    if case .leads(let target) = cell { grow(component, to: target + 1) }
  }

  /// Adds an observation: a combination of local states that the search watches for. Returns the
  /// observation's number.
  ///
  /// The observation holds in a state if each component in `sets` is in one of the component's
  /// local states in `sets`.
  package mutating func addObservation(_ sets: [Int: Set<Int>]) throws -> Int {
    if let missingComponent = sets.keys.first(where: { !components.indices.contains($0) }) {
      throw ExplorationModelError.unknownComponent(missingComponent)
    }
    isExtended = true
    observations.append(sets)
    return observations.count - 1
  }

  /// Adds an observation that holds while a queue is full. This includes contents that are found
  /// later. Returns the observation's number.
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

  /// Records that an observation may hold in a local state of a component. Call this, for example,
  /// when the search has just found the local state.
  package mutating func include(_ state: Int, of component: Int, in observation: Int) {
    if observations[observation][component] == nil { isExtended = true }
    observations[observation][component, default: []].insert(state)
    changes.append(.observed(observation: observation, component: component, state: state))
  }

  // MARK: Symmetries of the model

  /// Adds a symmetry, and returns its number.
  ///
  /// Together with the identity, the symmetries must form a group. The identity itself must not be
  /// added. Local states and symbols keep their numbers unless the caller sets their images.
  /// - Parameter images: The image of each component that is not mapped to itself. A queue is mapped
  ///   to itself.
  package mutating func addSymmetry(_ images: [Int: Int]) -> Int {
    isExtended = true
    symmetries.append(Symmetry(components.indices.map { images[$0] ?? $0 }))
    return symmetries.count - 1
  }

  /// Sets the image of a local state, which is a local state of the component's image.
  ///
  /// The image must be set before the search visits the local state.
  package mutating func setImage(
    ofState state: Int, in component: Int, to image: Int, by symmetry: Int
  ) {
    symmetries[symmetry].setImage(ofState: state, in: component, to: image)
    grow(symmetries[symmetry].componentImages[component], to: image + 1)
  }

  /// Sets the image of a symbol of a queue.
  ///
  /// The image must be set before the queue contains the symbol.
  package mutating func setImage(
    ofSymbol symbol: Int, in queue: Int, to image: Int, by symmetry: Int
  ) {
    symmetries[symmetry].setImage(ofSymbol: symbol, in: queue, to: image)
  }

  /// Computes the images of all contents of queues. Adds the images that are new.
  mutating func mapQueues() {
    for component in components.indices where components[component].queue != nil {
      take(component, newFrom: components[component].stateCount)
    }
  }

  /// Adds the images of a queue's contents, so that each of the contents has an image by each
  /// symmetry.
  private mutating func mapContents(of component: Int) {
    guard !symmetries.isEmpty, var queue = components[component].queue else { return }
    components[component].queue = nil
    var mapped = symmetries.map(\.localStates[component].count).min() ?? 0
    while mapped < queue.contents.count {
      for symmetry in symmetries.indices {
        let image = symmetries[symmetry].image(ofContents: queue.contents[mapped], in: component)
        symmetries[symmetry].setImage(
          ofState: mapped, in: component, to: queue.number(of: image))
      }
      mapped += 1
    }
    components[component].queue = queue
  }

  /// Fills the cells of a queue in one local state, for all vectors.
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

  /// Adds a local state for each of the queue's new contents, whose numbers begin at `known`. A
  /// local state in which the queue is full is also added to the observation of the full queue.
  private mutating func take(_ component: Int, newFrom known: Int) {
    mapContents(of: component)
    guard let queue = components[component].queue else { return }
    grow(component, to: queue.contents.count)
    guard let fullObservation = components[component].fullObservation else { return }
    for state in known..<queue.contents.count where queue.isFull(in: state) {
      include(state, of: component, in: fullObservation)
    }
  }

  /// Sets the cell of a queue's role in one local state.
  mutating func set(_ cell: Cell, ofRole role: Int, in vector: Int, _ state: Int) {
    vectors[vector].roles[role].set(cell, in: state)
    changes.append(.cell(vector: vector, role: role, state: state))
  }

  /// The memory for the contents of queues. Unit: bytes.
  var queueByteCount: Int { components.reduce(0) { $0 + ($1.queue?.byteCount ?? 0) } }

  /// Returns whether a component may get more local states. `true` for queues, and for components
  /// with an unknown cell.
  func isGrowing(_ component: Int) -> Bool {
    components[component].queue != nil
      || vectors.contains { vector in
        vector.roles.contains { role in
          role.component == component && !role.isUnchanged
            && (role.targets.count < components[component].stateCount
              || role.targets.contains(Role.unknownTarget))
        }
      }
  }

  /// All components, ordered so that components of the same vector are next to each other.
  var componentsByVector: [Int] {
    var met: Set<Int> = []
    let participating = vectors.flatMap { $0.roles.map(\.component) }
    return (participating + components.indices).filter { met.insert($0).inserted }
  }

  /// Clears the recorded changes. A search calls this after it has applied the changes.
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
  /// The component has two roles in the same vector. A step can move a component only once.
  case duplicateComponent(Int)
  /// A queue has a role without an operation, or another component has a role without a table.
  case roleKindMismatch(Int)
}

extension ExplorationModel {
  /// Returns the model in Promela, so that SPIN can check it.
  ///
  /// SPIN stores the same number of states, and reports a deadlock as an invalid end state. An
  /// unknown cell becomes a blocking cell. The contents of a queue are represented by numbers, in
  /// the order of discovery.
  /// - Parameters:
  ///   - componentNames: A Promela identifier for each component. Missing names are `c0`, `c1`, ….
  ///   - vectorNames: A comment for each vector. Missing names are numbers.
  package func promela(componentNames: [String] = [], vectorNames: [String] = []) -> String {
    let names = components.indices.map {
      $0 < componentNames.count ? componentNames[$0] : "c\($0)"
    }
    var lines = zip(names, components).map { name, component in
      let type = component.stateCount <= 256 ? "byte" : "int"
      return "\(type) \(name) = \(component.initialState);"
    }
    lines += ["", "active proctype product() {", "  do"]
    for (number, vector) in vectors.enumerated() {
      // Replaces characters that would end the comment or the line: the rest of the name would be
      // parsed as Promela.
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
