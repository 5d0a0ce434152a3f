import PipeRuntime

func close(speed: Int) async -> Event {
  try? await Task.sleep(nanoseconds: UInt64(1_000_000_000 / speed))
  return .doorHasLocked
}

// Left to the reader. The class is not Sendable.
class Engine {
  var delay: Int { 2_000_000 }
}
class FastEngine: Engine {
  override var delay: Int { 2_000 }
}

class ElevatorUseCase {
  let engine: Engine

  init(engine: Engine) { self.engine = engine }

  func close(speed: Int) async -> Event {
    try? await Task.sleep(nanoseconds: UInt64(self.engine.delay / speed))
    return .doorHasLocked
  }
}

func makeClose(engine: Engine) -> (Int) async -> Event {
  return { (speed: Int) in
    try? await Task.sleep(nanoseconds: UInt64(engine.delay / speed))
    return .doorHasLocked
  }
}

func close(speed: Int, engine: Engine) async -> Event {
  try? await Task.sleep(nanoseconds: UInt64(engine.delay / speed))
  return .doorHasLocked
}
