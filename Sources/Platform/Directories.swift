/// Creates a directory and all missing parents. An existing directory stays as it is.
///
/// The corresponding command is `mkdir -p`.
package func makeDirectories(_ path: String, mode: mode_t) throws(SystemError) {
    do throws(SystemError) { try makeDirectory(path, mode) } catch {
        guard error.code == ENOENT, let slash = path.lastIndex(of: "/"), slash != path.startIndex
        else { throw error }
        try makeDirectories(String(path[..<slash]), mode: mode)
        try makeDirectory(path, mode)
    }
}

/// Creates a directory unless it exists.
private func makeDirectory(_ path: String, _ mode: mode_t) throws(SystemError) {
    do throws(SystemError) { try system(named: "mkdir") { mkdir(path, mode) } } catch {
        var status = stat()
        guard error.code == EEXIST, stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            throw error
        }
    }
}
