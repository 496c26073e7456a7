package checkpoint

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/zeebo/xxh3"

	"firstbit/files"
)

// What a save is written as, and an old checkpoint renamed to before it is removed. Readers see neither.
const (
	saving   = ".saving-"
	removing = ".removing-"
)

// Saver writes the checkpoints of a run. A checkpoint appears under its name when every byte of it has reached the disk. Until Close no
// other Saver writes into the folder.
type Saver struct {
	Dir  string
	Keep int      // as many of the newest of this run stay; 0: all
	Run  Manifest // what all its checkpoints have in common; Provenance.Previous is the one that the next follows

	ranks  int
	folder *files.Folder
	mu     sync.Mutex
	open   map[int]*save // by step
	saved  []link        // the run's checkpoints in the folder, ascending
}

// save is a checkpoint under way.
type save struct {
	dir   string
	files []RankFile
	left  int // ranks that have yet to write theirs
}

// NewSaver makes a Saver of a run of so many ranks, which begins after the given step. It makes the folder and makes sure that it can be
// written. A folder that holds a later checkpoint is refused: none is ever overwritten.
func NewSaver(dir string, keep, ranks, after int, run Manifest) (*Saver, error) {
	folder, err := files.Claim(dir)
	if err != nil {
		return nil, fmt.Errorf("save %s: %w", dir, err)
	}
	s := &Saver{Dir: dir, Keep: keep, Run: run, ranks: ranks, folder: folder, open: map[int]*save{}}
	if err := s.prepare(after); err != nil {
		folder.Release()
		return nil, err
	}
	return s, nil
}

func (s *Saver) prepare(after int) error {
	steps, err := Steps(s.Dir)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step > after {
			return fmt.Errorf("save %s: holds %s, and the run begins after step %d: name another folder or move it away", s.Dir, stepName(step), after)
		}
	}
	err = s.folder.Probe()
	if err == nil {
		err = clean(s.Dir)
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", s.Dir, files.Reason(err))
	}
	if s.Keep > 0 {
		s.saved = chain(s.Dir, steps, s.Run.Provenance.Previous)
	}
	return nil
}

// Put writes the tensors of a rank after a step. The last rank's ends the checkpoint.
func (s *Saver) Put(rank, step int, tensors []Tensor) error {
	err := s.put(rank, step, tensors)
	if err != nil {
		return fmt.Errorf("save %s: %w", filepath.Join(s.Dir, stepName(step)), files.Reason(err))
	}
	return nil
}

func (s *Saver) put(rank, step int, tensors []Tensor) error {
	c, err := s.begin(step)
	if err != nil {
		return err
	}
	file, err := writeRank(c.dir, rank, tensors)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	c.files[rank] = file
	if c.left--; c.left > 0 {
		return nil
	}
	if err := s.end(step, c); err != nil {
		return err
	}
	delete(s.open, step)
	return nil
}

// Close removes what a run that failed left unfinished, and lets others write into the folder. No rank runs any more.
func (s *Saver) Close() {
	for step, c := range s.open { // order reaches nothing
		_ = removeFiles(c.dir) // a rest is removed by the next run
		delete(s.open, step)
	}
	s.folder.Release()
}

// begin finds the save of a step, or makes it.
func (s *Saver) begin(step int) (*save, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[step]; c != nil {
		return c, nil
	}
	if err := s.folder.Hold(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Dir, saving)
	if err != nil {
		return nil, err
	}
	c := &save{dir: dir, files: make([]RankFile, s.ranks), left: s.ranks}
	s.open[step] = c
	return c, os.Chmod(dir, 0o755)
}

// end writes the manifest, gives the checkpoint its name, and removes older ones.
func (s *Saver) end(step int, c *save) error {
	m := s.Run
	m.Step, m.Files = step, c.files
	b, err := m.encode()
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(c.dir, manifestFile), b); err != nil {
		return err
	}
	if err := syncDir(c.dir); err != nil {
		return err
	}
	name := filepath.Join(s.Dir, stepName(step))
	if _, err := os.Lstat(name); err == nil {
		return os.ErrExist
	}
	if err := os.Rename(c.dir, name); err != nil {
		return err
	}
	if err := syncDir(s.Dir); err != nil {
		return err
	}
	s.Run.Provenance.Previous = m.Digest
	s.saved = append(s.saved, link{step, m.Digest})
	return s.prune()
}

// writeRank writes a rank's file and says what it holds.
func writeRank(dir string, rank int, tensors []Tensor) (RankFile, error) {
	r := RankFile{Name: rankFile(rank)}
	f := FileOf(tensors)
	var entries []Entry
	described := make(chan error, 1)
	go func() { // while the disk is busy
		var err error
		entries, err = f.entries()
		described <- err
	}()
	h := xxh3.New()
	err := synced(filepath.Join(dir, r.Name), func(to io.Writer) error {
		buffered := bufio.NewWriterSize(to, 1<<20)
		n := counter{to: io.MultiWriter(h, buffered)}
		err := encodeTo(&n, tensors)
		r.Bytes = n.bytes
		return cmp.Or(err, buffered.Flush())
	})
	if err = cmp.Or(<-described, err); err != nil {
		return r, err
	}
	sum := h.Sum128().Bytes()
	r.Tensors, r.Digest = entries, hex.EncodeToString(sum[:])
	return r, nil
}

// counter counts what passes.
type counter struct {
	to    io.Writer
	bytes int
}

func (c *counter) Write(b []byte) (int, error) {
	c.bytes += len(b)
	return c.to.Write(b)
}

func writeSynced(path string, b []byte) error {
	return synced(path, func(to io.Writer) error {
		_, err := to.Write(b)
		return err
	})
}

// synced makes a file that write fills, and returns when every byte of it has reached the disk.
func synced(path string, write func(to io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// syncDir makes the names in a folder last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}
