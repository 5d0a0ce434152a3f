import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// Protects the files by which other processes find the processes of a running topology.
///
/// Programs that clean up temporary files remove old files, even files that are in use.
/// systemd-tmpfiles respects locks, so the directories are locked. tmpreaper and tmpwatch remove
/// only files with old times, so the times of the files are regularly set to the current time. If
/// another program removes files nevertheless, the orchestrator writes them again.
package final class RuntimeFiles {
  private struct SavedFile {
    var version: String
    var bytes: [UInt8]
  }

  private let directories: RuntimeDirectories
  private var savedFiles: [String: SavedFile] = [:]
  private var lastDirectoryVersion = ""
  private var refreshedAt: ContinuousClock.Instant?
  private var lockDescriptors: [Int32] = []

  /// The interval at which the times of the files are set to the current time.
  private static let refreshInterval: Duration = .seconds(60)
  /// The maximum size of a file whose contents are kept in memory. Unit: bytes.
  private static let byteLimit = 4 << 20

  package init(in directories: RuntimeDirectories) {
    self.directories = directories
    for path in [directories.runtime, directories.state] {
      let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      // If locking fails, only the regular update of the files' times keeps other programs from
      // removing the files.
      if descriptor >= 0, flock(descriptor, LOCK_SH | LOCK_NB) == 0 {
        lockDescriptors.append(descriptor)
      }
    }
  }

  deinit { for descriptor in lockDescriptors { close(descriptor) } }

  /// Restores files that another program has removed.
  /// - Parameter isWanted: Returns whether the file with this name still belongs to a live process
  ///   or to the run.
  /// - Returns: The names of the restored files.
  package func keepInPlace(where isWanted: (_ name: String) -> Bool) -> [String] {
    refresh()
    // The version of a directory changes when a file in it appears, disappears or is replaced.
    let directoryVersion = FileSystem.version(of: directories.runtime)
    guard directoryVersion != lastDirectoryVersion else { return [] }
    let names = Set(FileSystem.entryNames(of: directories.runtime))
    var restoredNames: [String] = []
    for (name, file) in savedFiles where !names.contains(name) {
      savedFiles[name] = nil
      guard isWanted(name) else { continue }
      let isRecord = name.hasSuffix(ProcessRecord.suffix)
      let bytes = isRecord ? ProcessRecord.unlocked(file.bytes) : file.bytes
      let path = directories.runtime + "/" + name
      guard (try? FileSystem.replace(path, with: bytes)) != nil else { continue }
      restoredNames.append(name)
    }
    let isComplete = save(names.union(restoredNames))
    lastDirectoryVersion = isComplete && restoredNames.isEmpty ? directoryVersion : ""
    return restoredNames.sorted()
  }

  /// Keeps the contents of the files in memory, so that the files can be restored.
  /// - Returns: `false` if a file is not complete yet, so that the files must be saved again later.
  private func save(_ names: Set<String>) -> Bool {
    var isComplete = true
    for name in names where Self.suffixes.contains(where: name.hasSuffix) {
      let path = directories.runtime + "/" + name
      let version = FileSystem.version(of: path)
      guard savedFiles[name]?.version != version else { continue }
      guard let bytes = FileSystem.contents(of: path, limit: Self.byteLimit) else { continue }
      // A process that was just forked has not added its line to the record yet.
      guard !name.hasSuffix(ProcessRecord.suffix) || ProcessRecord.isIdentified(bytes) else {
        isComplete = false
        continue
      }
      savedFiles[name] = SavedFile(version: version, bytes: bytes)
    }
    return isComplete
  }

  private static let suffixes = [ProcessRecord.suffix, ".key", ".place"]

  /// Sets the times of the files to the current time. For logs and journals, sets only the time of
  /// the last access.
  private func refresh() {
    if let refreshedAt, .now - refreshedAt < Self.refreshInterval { return }
    refreshedAt = .now
    for name in FileSystem.entryNames(of: directories.runtime) {
      Self.touch(directories.runtime + "/" + name, modification: Self.utimeNow)
    }
    for directory in [directories.state, directories.logs, directories.journals] {
      for name in FileSystem.entryNames(of: directory) {
        Self.touch(directory + "/" + name, modification: Self.utimeOmit)
      }
    }
  }

  private static func touch(_ path: String, modification: Int) {
    let times = [
      timespec(tv_sec: 0, tv_nsec: utimeNow), timespec(tv_sec: 0, tv_nsec: modification),
    ]
    utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW)
  }

  // Copies of the macros UTIME_NOW and UTIME_OMIT. Source: linux/stat.h
  private static let utimeNow = (1 << 30) - 1
  private static let utimeOmit = (1 << 30) - 2
}
