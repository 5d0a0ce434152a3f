import PipeMachines

extension ViewState where Output == Never {
  /// Shows the state of a node elsewhere as it is.
  ///
  /// An event that does not reach the node counts as refused, with the reason as text; one whose topology
  /// is gone as sent to a run that has ended.
  public convenience init(
    _ model: RemoteModel<State, Event>
  ) where State: MachineState & StateProtocol, Event: MachineEvent {
    self.init(
      showing: model.state,
      of: ViewSource(
        states: {
          var states = model.stateDidChange.makeAsyncIterator()
          return { await states.next(isolation: MainActor.shared) }
        },
        transmit: { event in
          do { return try await model.send(event) } catch { return Self.outcome(of: error) }
        },
        transmitFollowing: { event in
          do {
            let (outcome, steps) = try await model.following(event)
            return (outcome, { await steps.next(isolation: MainActor.shared) })
          } catch {
            return (Self.outcome(of: error), { nil })
          }
        }))
  }

  private static func outcome(of error: any Error) -> SendOutcome<State> {
    switch error as? TopologyClientError {
    case .closed, .orchestratorGone, .notRunning, .noneRunning, .orphaned: .finished
    default: .refused(.thrown("\(error)"))
    }
  }
}
