import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// The files by which a topology's processes are found. They are kept in place while the topology runs.
///
/// Cleaners of temporary files remove old files, even if they are in use. So the directories are
/// locked, which systemd-tmpfiles respects. The files in them are made to look recent at intervals,
/// which tmpreaper and tmpwatch respect. Files that are removed nevertheless are written again.
package final class RuntimeFiles {
  private struct SavedFile {
    var version: String
    var bytes: [UInt8]
  }

  private let directories: RuntimeDirectories
  private var saved: [String: SavedFile] = [:]
  private var lastDirectoryVersion = ""
  private var refreshedAt: ContinuousClock.Instant?
  private var locks: [Int32] = []

  /// The interval at which the files are made to look recent.
  private static let refreshInterval: Duration = .seconds(60)
  /// The size of the largest file that is saved. Unit: bytes.
  private static let byteLimit = 4 << 20

  package init(in directories: RuntimeDirectories) {
    self.directories = directories
    for path in [directories.runtime, directories.state] {
      let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      // Without a lock, removed files are written again, as with a cleaner that respects no locks.
      if descriptor >= 0, flock(descriptor, LOCK_SH | LOCK_NB) == 0 { locks.append(descriptor) }
    }
  }

  deinit { for descriptor in locks { close(descriptor) } }

  /// Restores files that another program has removed.
  /// - Parameter isWanted: Whether the file of this name still belongs to a process or to the run.
  /// - Returns: The names of the restored files.
  package func keepInPlace(where isWanted: (_ name: String) -> Bool) -> [String] {
    refresh()
    // A file that appears, disappears or is replaced changes the directory.
    let look = FileSystem.version(of: directories.runtime)
    guard look != lastDirectoryVersion else { return [] }
    let names = Set(FileSystem.entries(of: directories.runtime))
    var restored: [String] = []
    for (name, file) in saved where !names.contains(name) {
      saved[name] = nil
      guard isWanted(name) else { continue }
      let isRecord = name.hasSuffix(ProcessRecord.suffix)
      let bytes = isRecord ? ProcessRecord.unlocked(file.bytes) : file.bytes
      let path = directories.runtime + "/" + name
      guard (try? FileSystem.replace(path, with: bytes)) != nil else { continue }
      restored.append(name)
    }
    let isComplete = save(names.union(restored))
    lastDirectoryVersion = isComplete && restored.isEmpty ? look : ""
    return restored.sorted()
  }

  /// Saves the current contents of the files.
  /// - Returns: Whether all contents are final.
  private func save(_ names: Set<String>) -> Bool {
    var isComplete = true
    for name in names where Self.suffixes.contains(where: name.hasSuffix) {
      let path = directories.runtime + "/" + name
      let version = FileSystem.version(of: path)
      guard saved[name]?.version != version else { continue }
      guard let bytes = FileSystem.contents(of: path, limit: Self.byteLimit) else { continue }
      // A process that was just forked has not identified itself yet.
      guard !name.hasSuffix(ProcessRecord.suffix) || ProcessRecord.isIdentified(bytes) else {
        isComplete = false
        continue
      }
      saved[name] = SavedFile(version: version, bytes: bytes)
    }
    return isComplete
  }

  private static let suffixes = [ProcessRecord.suffix, ".key", ".place"]

  /// Makes the files look recent: the files by which processes are found, and, only by the time of
  /// the last access, logs and journals of idle nodes.
  private func refresh() {
    if let refreshedAt, .now - refreshedAt < Self.refreshInterval { return }
    refreshedAt = .now
    for name in FileSystem.entries(of: directories.runtime) {
      Self.touch(directories.runtime + "/" + name, modification: Self.present)
    }
    for directory in [directories.state, directories.logs, directories.journals] {
      for name in FileSystem.entries(of: directory) {
        Self.touch(directory + "/" + name, modification: Self.unchanged)
      }
    }
  }

  private static func touch(_ path: String, modification: Int) {
    let times = [
      timespec(tv_sec: 0, tv_nsec: present), timespec(tv_sec: 0, tv_nsec: modification),
    ]
    utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW)
  }

  // UTIME_NOW and UTIME_OMIT, which are macros. Source: linux/stat.h
  private static let present = (1 << 30) - 1
  private static let unchanged = (1 << 30) - 2
}
