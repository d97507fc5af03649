package checkpoint

import (
	"github.com/cespare/xxhash/v2"
)

// Info describes a snapshot file.
type Info struct {
	Path   string
	Size   int64 // bytes
	Header Header
	// Sections lists the sections in the file's table, in order.
	Sections []SectionInfo
}

// SectionInfo describes a section.
type SectionInfo struct {
	Name string
	Size uint64 // bytes
	Hash uint64 // xxh64 of the data as written
	OK   bool   // the data is there and has that hash
}

// Inspect reads the file at path and verifies every checksum. It changes nothing.
// For a damaged file it returns an [*Error] and, if the header could be read, the
// Info as well.
func Inspect(path string) (*Info, error) { return inspect(osFS{}, path) }

func inspect(fs FS, path string) (*Info, error) {
	f, size, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &reader{path: path, r: f, size: size, sum: xxhash.New()}
	h, table, err := r.head()
	info := &Info{Path: path, Size: size, Header: h}
	if err != nil && table == nil {
		return info, err
	}
	buf := make([]byte, min(chunk, max(1, r.left())))
	for _, e := range table {
		si := SectionInfo{Name: e.name, Size: e.size, Hash: e.hash}
		sum := xxhash.New()
		for n := e.size; n > 0; {
			b := buf[:min(n, uint64(len(buf)), uint64(max(r.left(), 0)))]
			if len(b) == 0 {
				break
			}
			if ferr := r.fill("section \""+e.name+"\"", b); ferr != nil {
				return info, ferr
			}
			sum.Write(b)
			n -= uint64(len(b))
		}
		si.OK = sum.Sum64() == e.hash
		if !si.OK && err == nil {
			err = r.fail("section \""+e.name+"\"", ErrChecksum, "")
		}
		info.Sections = append(info.Sections, si)
	}
	if err == nil {
		err = r.trailer()
	}
	return info, err
}
