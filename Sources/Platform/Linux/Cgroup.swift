internal import FoundationEssentials

/// Returns the smallest limit of this process's cgroup and its parent cgroups; nil if none of them has a limit.
///
/// - Parameters:
///   - files: The names of the files that contain a limit, such as "memory.max".
///   - controller: The controller of a cgroup of version 1; empty for version 2.
///   - root: The directory to use instead of "/", for tests.
///   - read: Parses the first lines of the files, joined by spaces. Returns nil for "no limit".
func tightestCgroupLimit(
    _ files: String..., controller: String = "", root: String = "", read: (String) -> Int?
) -> Int? {
    guard
        let memberships = try? String(contentsOfFile: root + "/proc/self/cgroup", encoding: .utf8),
        let member = memberships.split(separator: "\n").lazy.compactMap({ cgroup($0, of: controller) }).first
    else { return nil }
    let mount = root + "/sys/fs/cgroup" + (controller.isEmpty ? "" : "/" + controller)
    var path = mount + member
    var tightest: Int?
    // In a container, the mount may start at the container's own cgroup, although the membership has the host's path.
    while path.hasPrefix(mount) {
        let lines = files.compactMap { firstLine(path + "/" + $0) }
        if lines.count == files.count, let limit = read(lines.joined(separator: " ")) {
            tightest = min(tightest ?? limit, limit)
        }
        guard let slash = path.lastIndex(of: "/") else { break }
        path = String(path[..<slash])
    }
    return tightest
}

/// Returns the first non-blank line of a file; nil if the file cannot be read.
private func firstLine(_ path: String) -> Substring? {
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
    return text.drop(while: \.isWhitespace).prefix { $0 != "\n" }
}

/// Returns the cgroup's path from a line of /proc/self/cgroup such as "4:cpu,memory:/path" ("0::/path" in version
/// 2); nil if the line belongs to another controller.
private func cgroup(_ line: Substring, of controller: String) -> Substring? {
    let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3,
        parts[1].split(separator: ",", omittingEmptySubsequences: false).contains(controller[...])
    else { return nil }
    return parts[2]
}
