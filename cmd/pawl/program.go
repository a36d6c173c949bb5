package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// find looks up the command before pawl waits for the lock.
func find(name string) (string, error) {
	program, err := lookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return program, nil
	case errors.Is(err, fs.ErrPermission), exists(name):
		return "", &exitError{exitNotExec, fmt.Errorf("%s: not executable", name)}
	}
	return "", &exitError{exitNotFound, fmt.Errorf("%s: command not found", name)}
}

// lookPath is exec.LookPath with the default path of shells if PATH is not set.
func lookPath(name string) (program string, err error) {
	if _, set := os.LookupEnv("PATH"); set || strings.ContainsRune(name, os.PathSeparator) || defaultPath == "" {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(defaultPath) {
		if program, err = exec.LookPath(filepath.Join(dir, name)); err == nil {
			return program, nil
		}
	}
	return "", err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil && strings.ContainsRune(path, os.PathSeparator)
}

// firstCommand returns the first command of a shell line, to be shown to others. It
// skips assignments, which may contain passwords.
func firstCommand(line string) string {
	for _, word := range strings.Fields(line) {
		switch end := strings.IndexAny(word, ";&|<>()"); {
		case strings.ContainsAny(word, `$'"\`+"`"):
			return "sh" // only the shell knows where the word ends
		case strings.Contains(word, "="):
		case end > 0:
			return word[:end]
		case end < 0:
			return word
		}
	}
	return "sh"
}

func shellPath() string {
	if sh := os.Getenv("SHELL"); sh != "" {
		return sh
	}
	return "/bin/sh"
}
