import PipeMachines
import PipeTopology
import PipeWire

/// A renaming of keys that maps each step of the topology to a step.
struct KeySymmetry {
  let renaming: ExploredKeys.Renaming
  /// For each node, the index of the node's image.
  let imageIndices: [Int]
  /// The number of the symmetry in the model.
  let number: Int

  /// Returns the identity of an action's image.
  func image(of identity: ExploredAction.Identity) -> ExploredAction.Identity {
    var image = identity
    image.event = renaming.apply(identity.event)
    image.moverIndices = identity.moverIndices.map { imageIndices[$0] }
    switch identity.origin {
    case .effect(let node, let name): image.origin = .effect(node: imageIndices[node], name: name)
    case .unevaluated(let node): image.origin = .unevaluated(node: imageIndices[node])
    case .timer(let node): image.origin = .timer(node: imageIndices[node])
    case .outside, .pipe: break
    }
    return image
  }
}

// Nodes with a `key`: the search has a node for each of their explored instances.
extension TopologyModel {
  /// Returns the indices of a node, or of all its instances.
  func nodeIndices(of name: String) -> [Int] { nodes.indices.filter { nodes[$0].baseName == name } }

  /// Returns the index of an instance of a node; `nil` if the instance is not explored.
  func instanceIndex(of node: String, _ key: String) -> Int? {
    nodes.firstIndex { $0.baseName == node && $0.key?.text == key }
  }

  /// Returns the key's field and the keys to try in events for a node or a composite; `nil` if the
  /// node or composite has no `key`.
  func keysToTry(for owner: String) -> (field: String, values: [JSONValue])? {
    keys.field(of: owner).map { ($0, keys.keys(of: owner).map(\.value)) }
  }

  /// Returns the indices of the instances of these nodes with this key. If one of the instances is
  /// not explored, records a limit of the search and returns `nil`.
  func instanceIndices(of names: [String], _ key: InstanceKey) -> [Int]? {
    var indices: [Int] = []
    for name in names {
      guard let index = instanceIndex(of: name, key.text) else {
        eventValues.note(.limit(.unexploredKey(node: name, key: key.text)))
        return nil
      }
      indices.append(index)
    }
    return indices
  }

  /// Returns whether instances of a node take part in synchronized events.
  func isParticipantWithKey(_ name: String) -> Bool {
    nodes.contains { $0.baseName == name && $0.key != nil && !$0.compositesByEvent.isEmpty }
  }

  /// Sets the keys that permit an event to overtake earlier events of its pipe. Does nothing if
  /// there are no such keys.
  func setKeys(of send: ExploredSend, in model: inout ExplorationModel) {
    let pipe = pipes[send.pipeIndex]
    let keys = symbolKeys(
      of: pipe.events[send.eventNumber], by: pipe.senders[send.eventNumber], pipe)
    guard keys != SymbolKeys() else { return }
    model.setKeys(ofSymbol: send.eventNumber, in: pipe.component, to: keys)
  }

  /// Returns the keys that permit an event to overtake earlier events of its pipe.
  func symbolKeys(
    of event: JSONValue, by sender: ExploredPipe.Sender?, _ pipe: ExploredPipe
  ) -> SymbolKeys {
    var found = SymbolKeys()
    if pipe.hasLockableReceiver,
      case .success(let key)? = keys.key(of: event, at: pipe.specification.receiver)
    {
      found.receiver = number(ofKey: key.text)
    }
    if let sender {
      found.sender = number(ofKey: sender.key.text)
      found.isDelayed = sender.isCommit
    }
    return found
  }

  private func number(ofKey text: String) -> Int {
    let number = numbersByKey[text] ?? numbersByKey.count
    numbersByKey[text] = number
    return number
  }

  /// Adds the reception of an event by the instance that belongs to the key in the event.
  func addInstanceReception(
    of send: ExploredSend, _ event: JSONValue, by receiver: String,
    _ refusal: ExploredAction.Refusal, to model: inout ExplorationModel
  ) throws {
    guard let key = keys.key(of: event, at: receiver), let first = nodeIndices(of: receiver).first
    else {
      return
    }
    var mover = ExploredAction.Mover(
      node: first, input: .take(event: event),
      refusal: refusal == .postponed ? .deadLetter : refusal)
    mover.problem = reasonToRefuse(unsynchronized: event, at: first)
    switch key {
    case .success(let key):
      if let place = instanceIndex(of: receiver, key.text) {
        mover = ExploredAction.Mover(
          node: place, input: .take(event: event), refusal: mover.refusal,
          problem: mover.problem)
      } else {
        eventValues.note(.limit(.unexploredKey(node: receiver, key: key.text)))
        mover = ExploredAction.Mover(
          node: first, input: .take(event: event), refusal: .effectEnds, problem: "unexplored key")
      }
    case .failure(let error): mover.problem = "\(error)"
    }
    try add(
      ExploredAction(
        owner: nodes[mover.node].name, event: event, origin: .pipe(send.pipeIndex), movers: [mover],
        taken: send), to: &model)
  }

  /// Adds the action that discards an event for a composite with a `key`: the event has no valid
  /// key, or the search does not explore the instances with this key.
  func addDiscarding(
    of send: ExploredSend, by vector: SyncVector, _ key: Result<InstanceKey, InstanceKeyError>?,
    _ refusal: ExploredAction.Refusal, to model: inout ExplorationModel
  ) throws {
    guard let key,
      let first = vector.participants.lazy.compactMap({ self.nodeIndices(of: $0).first })
        .first
    else { return }
    let event = pipes[send.pipeIndex].events[send.eventNumber]
    var mover = ExploredAction.Mover(
      node: first, input: .take(event: event), refusal: .effectEnds, problem: "unexplored key")
    if case .failure(let error) = key {
      mover = ExploredAction.Mover(
        node: first, input: .take(event: event),
        refusal: refusal == .postponed ? .deadLetter : refusal, problem: "\(error)")
    }
    try add(
      ExploredAction(
        owner: vector.composite, event: event, origin: .pipe(send.pipeIndex), movers: [mover],
        taken: send), to: &model)
  }

  /// Returns the name of the instance of a composite with this key. Without a valid key, returns
  /// the name of the composite.
  func instanceName(
    of composite: String, _ key: Result<InstanceKey, InstanceKeyError>?
  ) -> String {
    guard case .success(let key)? = key else { return composite }
    return InstanceName(node: composite, key: key.text).description
  }

  // MARK: Symmetries from renamings of keys

  /// Adds a symmetry for each renaming of keys. Precondition: all nodes, pipes and composites were
  /// added.
  func addSymmetries() {
    let keyFields = keys.fieldNames
    let isFolded = section.foldModuli.values.contains {
      $0.keys.contains(where: keyFields.contains)
    }
    guard usesSymmetries, !isFolded else { return }
    for renaming in keys.renamings {
      let images = nodes.indices.map { place in
        node(named: keys.name(nodes[place].name, after: renaming)) ?? place
      }
      let number = model.addSymmetry(
        Dictionary(
          uniqueKeysWithValues: zip(nodes, images).map { ($0.component, nodes[$1].component) }))
      symmetries.append(KeySymmetry(renaming: renaming, imageIndices: images, number: number))
    }
  }

  /// Maps the events that pipes may contain before the first step, and checks that the symmetries
  /// do not change the initial state.
  func mapInitialEvents() throws {
    for pipe in pipes.indices {
      for event in pipes[pipe].events.indices {
        try mapEvent(ExploredSend(pipeIndex: pipe, eventNumber: event), in: &model)
      }
      let contents = model.contents(of: pipes[pipe].component, in: 0) ?? []
      for symmetry in symmetries
      where model.symmetries[symmetry.number].image(ofContents: contents, in: pipes[pipe].component)
        != contents
      {
        hasBrokenSymmetry = true
      }
    }
  }

  /// Adds the images of a new event in a pipe.
  func mapEvent(_ sent: ExploredSend, in model: inout ExplorationModel) throws {
    let pipe = pipes[sent.pipeIndex]
    for symmetry in symmetries {
      let renamed = symmetry.renaming.apply(pipe.events[sent.eventNumber])
      let sender = pipe.senders[sent.eventNumber].map { sender in
        ExploredPipe.Sender(
          key: symmetry.renaming.images[sender.key] ?? sender.key, isCommit: sender.isCommit)
      }
      let (image, isNew) = pipe.number(of: renamed, by: sender)
      model.setImage(ofSymbol: sent.eventNumber, in: pipe.component, to: image, by: symmetry.number)
      // For a pipe that postpones refused events, each step depends on the set of all accepted
      // events. The image of a single event is not sufficient there.
      if image != sent.eventNumber, pipe.specification.onRefused == .postpone {
        hasBrokenSymmetry = true
      }
      guard isNew else { continue }
      let send = ExploredSend(pipeIndex: sent.pipeIndex, eventNumber: image)
      setKeys(of: send, in: &model)
      try addReception(of: send, to: &model)
      try mapEvent(send, in: &model)
    }
  }

  /// Adds the images of a new configuration.
  func mapConfiguration(_ number: Int, of place: Int, in model: inout ExplorationModel) {
    let node = nodes[place]
    guard node.key != nil else { return }
    for symmetry in symmetries {
      let target = symmetry.imageIndices[place]
      let image = self.number(
        of: symmetry.renaming.apply(node.configurations[number]), target, in: &model)
      model.setImage(ofState: number, in: node.component, to: image, by: symmetry.number)
    }
  }

  /// Checks that each symmetry maps each action to an action. Does not evaluate any steps.
  func checkActions() {
    for symmetry in symmetries {
      for identity in actionsByIdentity.keys
      where actionsByIdentity[symmetry.image(of: identity)] == nil {
        hasBrokenSymmetry = true
      }
    }
  }

  /// Evaluates the images of a step, and checks that their outcomes are the images of the step's
  /// outcome.
  ///
  /// So the symmetries are proved step by step. The check fails if a machine treats two keys
  /// differently.
  /// - Parameter moverIndex: The index of a mover or, after the movers, of a composite.
  func mirror(
    _ action: ExploredAction, _ moverIndex: Int, in local: Int, at state: StateReference,
    _ model: inout ExplorationModel,
    _ evaluate: (ExploredAction, _ local: Int, inout ExplorationModel) throws -> Void
  ) throws {
    guard !symmetries.isEmpty, !isMirroring, !hasBrokenSymmetry,
      let outcome = action.outcomes[moverIndex][local]
    else { return }
    isMirroring = true
    defer { isMirroring = false }
    for symmetry in symmetries {
      guard let image = actionsByIdentity[symmetry.image(of: action.identity)] else {
        hasBrokenSymmetry = true
        return
      }
      let component = component(of: action, moverIndex)
      let target = model.symmetries[symmetry.number].image(of: local, in: component)
      try evaluate(image, target, &model)
      guard let found = image.outcomes[moverIndex][target],
        isImage(found, of: outcome, in: component, by: symmetry, model)
      else {
        hasBrokenSymmetry = true
        return
      }
    }
  }

  /// Returns the component of a mover or, if the index is after the movers, of a composite.
  func component(of action: ExploredAction, _ moverIndex: Int) -> Int {
    moverIndex < action.movers.count
      ? nodes[action.movers[moverIndex].node].component
      : composites[action.composites[moverIndex - action.movers.count]].component
  }

  private func isImage(
    _ image: ExploredAction.Outcome, of outcome: ExploredAction.Outcome, in component: Int,
    by symmetry: KeySymmetry, _ model: ExplorationModel
  ) -> Bool {
    let symmetry = model.symmetries[symmetry.number]
    switch (outcome, image) {
    case (.none, .none): return true
    case (
      .leads(let target, let sends, let isInternal),
      .leads(let imageTarget, let imageSends, let isImageInternal)
    ):
      return symmetry.image(of: target, in: component) == imageTarget
        && isInternal == isImageInternal && sends.count == imageSends.count
        && zip(sends, imageSends).allSatisfy { send, image in
          send.pipeIndex == image.pipeIndex
            && symmetry.image(ofContents: [send.eventNumber], in: pipes[send.pipeIndex].component)
              == [image.eventNumber]
        }
    case (.refused(let reason, let target), .refused(let imageReason, let imageTarget)):
      // The texts of errors are not compared, because they may contain keys.
      return symmetry.image(of: target, in: component) == imageTarget
        && reason.hasPrefix("thrown: ") == imageReason.hasPrefix("thrown: ")
        && Refusal(code: reason, error: nil)?.canBeIgnored
          == Refusal(code: imageReason, error: nil)?.canBeIgnored
    case (.ignored(let target), .ignored(let imageTarget)):
      return symmetry.image(of: target, in: component) == imageTarget
    case (.none, _), (.leads, _), (.ignored, _), (.refused, _): return false
    }
  }
}

extension ExploredKeys.Renaming {
  func apply(_ configuration: EvaluatorConfiguration) -> EvaluatorConfiguration {
    EvaluatorConfiguration(state: apply(configuration.state), effects: configuration.effects)
  }
}
