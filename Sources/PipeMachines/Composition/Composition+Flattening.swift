extension Composition {
  /// The resolution of composites into sync vectors, whose participants are machines only.
  struct Flattening {
    typealias Problem = CompositionError.Problem

    private let composites: [CompositeDeclaration]
    private let compositesByName: [String: CompositeDeclaration]
    private let alphabets: [String: [String]]
    private(set) var problems: [Problem] = []
    private(set) var machinesByComposite: [String: [String]] = [:]

    init(composites: [CompositeDeclaration], machines: [(name: String, alphabet: [String])]) {
      self.composites = composites
      compositesByName = Dictionary(composites.map { ($0.name, $0) }) { first, _ in first }
      alphabets = Dictionary(machines.map { ($0.name, $0.alphabet) }) { first, _ in first }
      var seen: Set<String> = []
      for name in machines.map(\.name) + composites.map(\.name)
      where !seen.insert(name).inserted {
        problems.append(.duplicateName(name))
      }
    }

    /// Checks names, components, participants and cycles. These checks do not need the alphabets.
    mutating func checkStructure() {
      for composite in composites { checkComponents(of: composite) }
      checkCycles()
    }

    mutating func flatten() throws(CompositionError) -> [SyncVector] {
      checkStructure()
      // The code below follows the components recursively, so all components must exist, and there
      // must be no cycles.
      guard problems.isEmpty else { throw CompositionError(problems: problems) }
      for composite in composites { machinesByComposite[composite.name] = machines(of: composite) }
      var vectors: [SyncVector] = []
      var replacedVectors: Set<[String]> = []
      for composite in composites {
        for synchronization in composite.synchronize {
          let members = participants(of: synchronization, in: composite)
          for member in members where compositesByName[member] != nil {
            absorb(synchronization.event, in: member, into: &replacedVectors)
          }
          guard let machines = resolve(synchronization, members, in: composite) else { continue }
          vectors.append(
            SyncVector(
              composite: composite.name, event: synchronization.event, participants: machines))
        }
      }
      guard problems.isEmpty else { throw CompositionError(problems: problems) }
      return vectors.filter { !replacedVectors.contains([$0.composite, $0.event]) }
    }

    private mutating func checkComponents(of composite: CompositeDeclaration) {
      let name = composite.name
      if composite.components.isEmpty { problems.append(.noComponents(composite: name)) }
      var seen: Set<String> = []
      for component in composite.components {
        if !seen.insert(component).inserted {
          problems.append(.repeatedComponent(component, composite: name))
        } else if compositesByName[component] == nil, alphabets[component] == nil {
          let known = (Array(alphabets.keys) + compositesByName.keys).filter { $0 != name }.sorted()
          problems.append(.unknownComponent(component, composite: name, known: known))
        }
      }
      var events: Set<String> = []
      for synchronization in composite.synchronize {
        if !events.insert(synchronization.event).inserted {
          problems.append(.repeatedEvent(synchronization.event, composite: name))
        }
        for participant in synchronization.participants ?? []
        where !composite.components.contains(participant) {
          problems.append(
            .unknownParticipant(
              participant, event: synchronization.event, composite: name,
              components: composite.components))
        }
      }
    }

    private mutating func checkCycles() {
      var finishedNames: Set<String> = []
      func cycle(from name: String, _ path: [String]) -> [String]? {
        if let start = path.firstIndex(of: name) { return path[start...] + [name] }
        guard let composite = compositesByName[name], !finishedNames.contains(name) else {
          return nil
        }
        for component in composite.components {
          if let found = cycle(from: component, path + [name]) { return found }
        }
        finishedNames.insert(name)
        return nil
      }
      for composite in composites {
        guard let found = cycle(from: composite.name, []) else { continue }
        // Reports only the first cycle. After the user has fixed this cycle, the next check reports
        // other cycles.
        return problems.append(.cycle(found))
      }
    }

    private func machines(of composite: CompositeDeclaration) -> [String] {
      var seen: Set<String> = []
      return composite.components.flatMap { component in
        compositesByName[component].map(machines(of:)) ?? [component]
      }.filter { seen.insert($0).inserted }
    }

    private func participants(
      of synchronization: Synchronization, in composite: CompositeDeclaration
    ) -> [String] {
      synchronization.participants
        ?? composite.components.filter { !alternatives(synchronization.event, of: $0).isEmpty }
    }

    /// Returns the sets of machines that can accept an event on behalf of a component. A composite
    /// can have several such sets.
    private func alternatives(_ event: String, of component: String) -> [Set<String>] {
      guard let composite = compositesByName[component] else {
        return alphabets[component]?.contains(event) == true ? [[component]] : []
      }
      var found: [Set<String>] = []
      var members: [String] = []
      if let synchronization = composite.synchronize.first(where: { $0.event == event }) {
        members = participants(of: synchronization, in: composite)
        found.append(
          members.reduce(into: []) { all, member in
            for alternative in alternatives(event, of: member) { all.formUnion(alternative) }
          })
      }
      for other in composite.components where !members.contains(other) {
        // Several components can have the same set of machines.
        for alternative in alternatives(event, of: other) where !found.contains(alternative) {
          found.append(alternative)
        }
      }
      return found
    }

    /// Returns the machines of a vector; `nil` if the synchronization has an error.
    private mutating func resolve(
      _ synchronization: Synchronization, _ members: [String], in composite: CompositeDeclaration
    ) -> [String]? {
      let event = synchronization.event
      let before = problems.count
      var machines: Set<String> = []
      for member in members {
        let choices = alternatives(event, of: member)
        if choices.isEmpty {
          problems.append(
            .notInAlphabet(
              member, event: event, composite: composite.name, alphabet: alphabet(of: member)))
        } else if choices.count > 1 {
          problems.append(
            .alternatives(
              choices.map { $0.sorted() }, participant: member, event: event,
              composite: composite.name))
        }
        for choice in choices { machines.formUnion(choice) }
      }
      if problems.count == before, machines.count < 2 {
        problems.append(
          .tooFewParticipants(machines.sorted(), event: event, composite: composite.name))
      }
      return problems.count == before ? machines.sorted() : nil
    }

    private func alphabet(of component: String) -> [String] {
      if let alphabet = alphabets[component] { return alphabet }
      let names = machinesByComposite[component]?.flatMap { alphabets[$0] ?? [] } ?? []
      return Set(names).sorted()
    }

    /// Records that an outer composite's vector for an event replaces the vector of the composite
    /// `name`. The vectors of the composites inside `name` are replaced, too.
    private func absorb(_ event: String, in name: String, into absorbed: inout Set<[String]>) {
      guard let composite = compositesByName[name] else { return }
      let own = composite.synchronize.first { $0.event == event }
      if own != nil { absorbed.insert([name, event]) }
      for component in own.map({ participants(of: $0, in: composite) }) ?? composite.components {
        absorb(event, in: component, into: &absorbed)
      }
    }
  }
}
