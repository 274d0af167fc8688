package hostel

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// longestEvent bounds what is read of one; a message has at most 1 MB.
const longestEvent = 8 << 20

// block is one of a stream of server-sent events. Without data it only says where the stream is.
type block struct {
	id, name, data string
	hasID, hasData bool
}

// blockReader takes blocks out of a stream. One is given once its blank line is here, never before.
type blockReader struct{ lines *bufio.Reader }

func newBlockReader(from io.Reader) *blockReader {
	return &blockReader{bufio.NewReaderSize(from, 64<<10)}
}

func (r *blockReader) next() (block, error) {
	current := block{name: "message"}
	size := 0
	for {
		line, err := r.line(&size)
		if err != nil {
			return block{}, err
		}
		if line == "" {
			if current.hasID || current.hasData {
				return current, nil
			}
			current, size = block{name: "message"}, 0
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			current.id, current.hasID = value, true
		case "event":
			current.name = value
		case "data":
			if current.hasData {
				value = current.data + "\n" + value
			}
			current.data, current.hasData = value, true
		}
	}
}

func (r *blockReader) line(size *int) (string, error) {
	var whole []byte
	for {
		piece, err := r.lines.ReadSlice('\n')
		whole = append(whole, piece...)
		*size += len(piece)
		if *size > longestEvent {
			return "", &ConnectionError{Code: ProtocolError, Err: errors.New("an event is too long to be one")}
		}
		if err == nil {
			return strings.TrimRight(string(whole), "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
}
