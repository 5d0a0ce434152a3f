import PipeSupervision
import PipeWire
import Testing

@Suite("Warnings about nearly full disks")
struct DiskWatchTests {
  @Test("A warning is due once each time that a disk becomes nearly full")
  func crossings() {
    var watch = DiskWatch()
    func take(_ used: Int64, _ device: UInt64 = 1, _ host: String? = nil) -> Bool {
      watch.take(DiskSpace(device: device, size: 100, free: 100 - used), on: host)
    }
    let steps: [(used: Int64, isDue: Bool)] = [
      (79, false), (80, true), (81, false), (95, false),
      // A small change around the limit causes no further warning.
      (79, false), (80, false), (78, false), (80, false),
      (77, false), (80, true), (0, false), (100, true),
    ]
    for (index, step) in steps.enumerated() {
      #expect(take(step.used) == step.isDue, "step \(index)")
    }
    // Other disks, also disks of other hosts with the same number, have warnings of their own.
    #expect(take(80, 2) && take(80, 1, "a") && take(80, 1, "b"))
    #expect(!take(80, 1, "a"))
  }
}
