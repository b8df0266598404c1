internal import FoundationEssentials

/// Returns the tightest limit that a file sets for this process's cgroup and its parents; nil without a
/// limit. If `controller` is nil, the file belongs to cgroup version 2. `read` gets the file's text without
/// surrounding white space, and returns nil for "no limit".
func tightestCgroupLimit(
    _ file: String, controller: String = "", root: String = "", read: (String) -> Int?
) -> Int? {
    guard
        let memberships = try? String(contentsOfFile: root + "/proc/self/cgroup", encoding: .utf8),
        let member = memberships.split(separator: "\n").lazy.compactMap({ cgroup($0, of: controller) }).first
    else { return nil }
    let mount = root + "/sys/fs/cgroup" + (controller.isEmpty ? "" : "/" + controller)
    var path = mount + member
    var tightest: Int?
    // A container may see its own cgroup at the top of the mount, and the host's path as its membership.
    while path.hasPrefix(mount) {
        if let text = try? String(contentsOfFile: path + "/" + file, encoding: .utf8),
            let limit = read(String(text.drop(while: \.isWhitespace).prefix { $0 != "\n" }))
        {
            tightest = min(tightest ?? limit, limit)
        }
        guard let slash = path.lastIndex(of: "/") else { break }
        path = String(path[..<slash])
    }
    return tightest
}

/// Returns the path in a line such as "4:cpu,memory:/path" ("0::/path" in version 2); nil if the line belongs
/// to another controller.
private func cgroup(_ line: Substring, of controller: String) -> Substring? {
    let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3,
        parts[1].split(separator: ",", omittingEmptySubsequences: false).contains(controller[...])
    else { return nil }
    return parts[2]
}
