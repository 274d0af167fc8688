package hostel

import (
	"context"
	"math/rand"
	"time"
)

// sleep waits, or ends with the context.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff gives pauses between attempts: from first doubling to longest, each between half of that and all of it.
type backoff struct{ first, longest, next time.Duration }

func newBackoff(first, longest time.Duration) *backoff {
	return &backoff{first: first, longest: longest, next: first}
}

func (b *backoff) pause() time.Duration {
	pause := b.next/2 + time.Duration(rand.Int63n(int64(b.next/2)+1))
	b.next = min(b.next*2, b.longest)
	return pause
}

func (b *backoff) reset() { b.next = b.first }
