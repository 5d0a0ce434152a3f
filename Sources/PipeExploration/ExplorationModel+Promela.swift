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
