package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxStoreFile is larger than any URL.
const maxStoreFile = 64 << 10

// readStoreFile reads the store's URL from the file that PAWL_STORE_FILE names. It
// also returns the file's absolute path. Its errors quote nothing from the file.
func readStoreFile(name string) (store, path string, err error) {
	if path, err = filepath.Abs(name); err != nil {
		return "", "", err
	}
	f, err := os.Open(name)
	if err != nil && strings.ContainsAny(strings.TrimPrefix(name, filepath.VolumeName(name)), ":=@?") {
		return "", "", errors.New("it holds a URL, or something like it; it must name a file with the URL in it, or use PAWL_STORE")
	}
	if err != nil {
		return "", "", fmt.Errorf("%w; name a file that you may read, with the store's URL in it", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxStoreFile))
	if err != nil {
		return "", "", fmt.Errorf("%w; name a file with the store's URL in it", err)
	}
	store, err = oneURL(strings.TrimPrefix(string(text), "\ufeff")) // Notepad writes a byte order mark
	return store, path, err
}

// oneURL returns the only line of a store file.
func oneURL(text string) (string, error) {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	switch {
	case len(text) == maxStoreFile:
		return "", errors.New("the file is too large; it must hold one line, a store's URL")
	case len(lines) == 0:
		return "", errors.New("the file is empty; it must hold a store's URL")
	case strings.ContainsRune(text, 0):
		return "", errors.New("the file is not UTF-8 text: save it as that, with one line, a store's URL")
	case len(lines) > 1:
		return "", fmt.Errorf("the file has %d lines; it must hold one, a store's URL, and no comment", len(lines))
	case strings.HasPrefix(lines[0], "#"):
		return "", errors.New("the file has a comment only; it must hold one line, a store's URL")
	case strings.HasPrefix(strings.TrimPrefix(lines[0], "export "), "PAWL_STORE"):
		return "", errors.New("the file sets a variable; it must hold a store's URL alone, without PAWL_STORE= before it")
	}
	return lines[0], nil
}
