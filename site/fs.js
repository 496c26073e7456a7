// A file system in memory, with the calls that a Go program as WebAssembly makes: traces and checkpoints of the runs lie in it. memoryFS() gives
// the globals fs, path and process that Go looks for. What the program prints goes to print(text).
"use strict";

function memoryFS(print) {
  const now = Date.now();
  let made = 0;
  const entry = (dir) => ({ dir, mode: dir ? 0o40755 : 0o100644, bytes: new Uint8Array(0), size: 0, names: dir ? new Map() : null, ino: ++made });
  const root = entry(true);
  root.names.set("tmp", entry(true));
  const open = new Map(); // descriptors
  let next = 3;

  const error = (code) => Object.assign(new Error(code), { code });
  const words = (path) => resolve(path).split("/").filter(Boolean);
  function resolve(...paths) {
    const out = [];
    for (const word of paths.join("/").split("/")) {
      if (word === "..") out.pop();
      else if (word && word !== ".") out.push(word);
    }
    return "/" + out.join("/");
  }
  function find(path) {
    let at = root;
    for (const word of words(path)) {
      if (!at.dir) throw error("ENOTDIR");
      at = at.names.get(word);
      if (!at) throw error("ENOENT");
    }
    return at;
  }
  function parent(path) {
    const list = words(path);
    const name = list.pop();
    if (!name) throw error("EINVAL");
    const dir = find(list.join("/"));
    if (!dir.dir) throw error("ENOTDIR");
    return [dir, name];
  }
  function resize(file, size) {
    if (size > file.bytes.length) {
      const more = new Uint8Array(Math.max(size, 2 * file.bytes.length));
      more.set(file.bytes.subarray(0, file.size));
      file.bytes = more;
    } else if (size < file.size) file.bytes.fill(0, size, file.size);
    file.size = size;
  }
  const stat = (e) => ({ dev: 1, ino: e.ino, mode: e.mode, nlink: 1, uid: 0, gid: 0, rdev: 0, size: e.size, blksize: 4096, blocks: Math.ceil(e.size / 512), atimeMs: now, mtimeMs: now, ctimeMs: now,
    isDirectory: () => e.dir });
  const held = (fd) => {
    const f = open.get(fd);
    if (!f) throw error("EBADF");
    return f;
  };
  const constants = { O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024, O_DIRECTORY: 65536 };
  const text = new TextDecoder();

  const calls = {
    open(path, flags) {
      let e;
      try {
        e = find(path);
      } catch (err) {
        if (err.code !== "ENOENT" || !(flags & constants.O_CREAT)) throw err;
        const [dir, name] = parent(path);
        dir.names.set(name, (e = entry(false)));
        flags &= ~constants.O_EXCL;
      }
      if (flags & constants.O_EXCL && flags & constants.O_CREAT) throw error("EEXIST");
      if (e.dir && flags & 3) throw error("EISDIR");
      if (!e.dir && flags & constants.O_DIRECTORY) throw error("ENOTDIR");
      if (flags & constants.O_TRUNC) resize(e, 0);
      open.set(next, { e, at: 0, append: Boolean(flags & constants.O_APPEND) });
      return next++;
    },
    close(fd) { held(fd); open.delete(fd); },
    fstat: (fd) => stat(held(fd).e),
    stat: (path) => stat(find(path)),
    lstat: (path) => stat(find(path)),
    readdir: (path) => {
      const e = find(path);
      if (!e.dir) throw error("ENOTDIR");
      return [...e.names.keys()].sort();
    },
    read(fd, buffer, offset, length, position) {
      const f = held(fd);
      if (f.e.dir) throw error("EISDIR");
      const from = position === null ? f.at : position;
      const n = Math.max(0, Math.min(length, f.e.size - from));
      buffer.set(f.e.bytes.subarray(from, from + n), offset);
      if (position === null) f.at += n;
      return n;
    },
    write(fd, buffer, offset, length, position) {
      if (fd === 1 || fd === 2) {
        print(text.decode(buffer.subarray(offset, offset + length)));
        return length;
      }
      const f = held(fd);
      const from = f.append ? f.e.size : position === null ? f.at : position;
      if (from + length > f.e.size) resize(f.e, from + length);
      f.e.bytes.set(buffer.subarray(offset, offset + length), from);
      if (position === null) f.at = from + length;
      return length;
    },
    mkdir(path) {
      const [dir, name] = parent(path);
      if (dir.names.has(name)) throw error("EEXIST");
      dir.names.set(name, entry(true));
    },
    unlink(path) {
      const [dir, name] = parent(path);
      const e = dir.names.get(name);
      if (!e) throw error("ENOENT");
      if (e.dir) throw error("EISDIR");
      dir.names.delete(name);
    },
    rmdir(path) {
      const [dir, name] = parent(path);
      const e = dir.names.get(name);
      if (!e) throw error("ENOENT");
      if (!e.dir) throw error("ENOTDIR");
      if (e.names.size) throw error("ENOTEMPTY");
      dir.names.delete(name);
    },
    rename(from, to) {
      const [a, old] = parent(from);
      const [b, name] = parent(to);
      const e = a.names.get(old);
      const there = b.names.get(name);
      if (!e) throw error("ENOENT");
      if (there && there.dir && there.names.size) throw error("ENOTEMPTY");
      a.names.delete(old);
      b.names.set(name, e);
    },
    ftruncate(fd, size) { resize(held(fd).e, size); },
    truncate(path, size) { resize(find(path), size); },
    fsync() {}, chmod() {}, fchmod() {}, chown() {}, fchown() {}, lchown() {}, utimes() {},
    readlink() { throw error("EINVAL"); }, link() { throw error("ENOSYS"); }, symlink() { throw error("ENOSYS"); },
  };

  const fs = { constants, writeSync: (fd, buffer) => calls.write(fd, buffer, 0, buffer.length, null) };
  for (const [name, call] of Object.entries(calls)) {
    fs[name] = (...args) => {
      const done = args.pop();
      let value;
      try {
        value = call(...args);
      } catch (e) {
        done(e.code ? e : error("EIO"));
        return;
      }
      done(null, value);
    };
  }
  const process = { getuid: () => 0, getgid: () => 0, geteuid: () => 0, getegid: () => 0, getgroups: () => [], pid: 1, ppid: 0, umask: () => 0o22, cwd: () => "/", chdir() {} };
  return { fs, process, path: { resolve } };
}

globalThis.memoryFS = memoryFS;
