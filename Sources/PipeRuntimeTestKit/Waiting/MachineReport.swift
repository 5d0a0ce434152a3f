import Glibc
import PipeRuntime

/// What the machine is doing, for a person who reads why a wait was given up.
enum MachineReport {
  private static let interval: useconds_t = 200_000
  private static let shown = 5

  /// Looks at all processes for a moment.
  static var now: String {
    let before = ticks()
    usleep(interval)
    let used = ticks().compactMap { pid, after in
      before[pid].map { (name: after.name, pid: pid, ticks: after.ticks &- $0.ticks) }
    }
    let busiest = used.filter { $0.ticks > 0 }.sorted { $0.ticks > $1.ticks }.prefix(shown)
    let load = FileSystem.text(of: "/proc/loadavg")?.split(separator: " ").first ?? "?"
    let processors = sysconf(Int32(_SC_NPROCESSORS_ONLN))
    let share = Double(sysconf(Int32(_SC_CLK_TCK))) * Double(interval) / 1_000_000
    let names = busiest.map { process in
      "\(process.name) (\(process.pid)) \(Int(100 * Double(process.ticks) / share)) %"
    }
    return "the machine: \(processors) processors, load \(load), busiest: "
      + (names.isEmpty ? "nobody" : names.joined(separator: ", "))
  }

  /// The processor time of each process. Unit: clock ticks.
  private static func ticks() -> [Int32: (name: String, ticks: UInt64)] {
    var all: [Int32: (name: String, ticks: UInt64)] = [:]
    for pid in FileSystem.entries(of: "/proc").compactMap({ Int32($0) }) {
      guard let line = FileSystem.text(of: "/proc/\(pid)/stat"),
        let open = line.firstIndex(of: "("), let close = line.lastIndex(of: ")")
      else { continue }
      let name = String(line[line.index(after: open)..<close])
      // The 14th and the 15th field; the name is the second.
      let fields = line[close...].split(separator: " ")
      guard fields.count > 13, let user = UInt64(fields[12]), let system = UInt64(fields[13]) else {
        continue
      }
      all[pid] = (name, user + system)
    }
    return all
  }
}
