import PipeRuntime

/// A view of a kettle in any style except the `Loadable` style. The space bar switches the kettle
/// on and off.
package enum KettleView: TerminalView {
  package static func body(_ state: KettleState, size: TerminalSize) -> [StyledLine] {
    let text: StyledLine =
      switch state {
      case .off: StyledLine("off", .dim)
      case .heating: StyledLine("heating…", .color(.yellow))
      case .hot: StyledLine("hot", .bold, .color(.red))
      }
    return [text, "", StyledLine("space switches it", .dim)]
  }

  package static func event(for key: Key, in state: KettleState) -> KettleEvent? {
    key == .character(" ") ? (state == .off ? .switchOn : .switchOff) : nil
  }
}

/// A view of the kettle in the `Loadable` style. When the view opens, the kettle heats the water.
package enum KettleLoaderView: TerminalView {
  package static func body(_ state: KettleLoader.State, size: TerminalSize) -> [StyledLine] {
    let text: StyledLine =
      switch state {
      case .start: StyledLine("off", .dim)
      case .loading: StyledLine("heating…", .color(.yellow))
      case .loaded(let water): StyledLine("\(water.celsius) °C", .bold, .color(.red))
      case .failedLoaded(_, let failure): StyledLine("\(failure)", .color(.red))
      }
    return [text, "", StyledLine("r heats again", .dim)]
  }

  package static func onAppear(_ state: KettleLoader.State) -> KettleLoader.Event? {
    state == .start ? .onAppear : nil
  }

  package static func event(for key: Key, in state: KettleLoader.State) -> KettleLoader.Event? {
    switch (key, state) {
    case (.character("r"), .loaded), (.character("r"), .failedLoaded): .onRetry
    default: nil
    }
  }
}
