// asynq: tasks by two servers, with retries, a delay, unique tasks and priorities.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

const tasks = 100

func main() {
	to := asynq.RedisClientOpt{Addr: address, ReadTimeout: 15 * time.Second}
	var lock sync.Mutex
	worked := map[string]int{}
	work := func(_ context.Context, task *asynq.Task) error {
		name := string(task.Payload())
		lock.Lock()
		worked[name]++
		often := worked[name]
		lock.Unlock()
		if name == "twice" && often == 1 {
			return errors.New("the first time")
		}
		time.Sleep(10 * time.Millisecond)
		return nil
	}
	config := asynq.Config{
		Concurrency:              4,
		Queues:                   map[string]int{"urgent": 6, "default": 1},
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		TaskCheckInterval:        50 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 200 * time.Millisecond },
	}
	for range 2 {
		server := asynq.NewServer(to, config)
		again(func() error { return server.Start(asynq.HandlerFunc(work)) })
	}
	client, inspector := asynq.NewClient(to), asynq.NewInspector(to)
	enqueue := func(name string, options ...asynq.Option) {
		again(func() error {
			_, err := client.Enqueue(asynq.NewTask("work", []byte(name)), append(options, asynq.TaskID(name), asynq.Retention(time.Hour))...)
			if errors.Is(err, asynq.ErrTaskIDConflict) {
				// It was there: the answer to the first try was lost.
				check(killed, "%s: %v", name, err)
				return nil
			}
			return err
		})
	}
	for number := range tasks {
		if number == tasks/2 {
			half("")
		}
		if number%10 == 0 {
			enqueue(fmt.Sprint("task-", number), asynq.Queue("urgent"))
		} else {
			enqueue(fmt.Sprint("task-", number))
		}
	}
	enqueue("later", asynq.ProcessIn(time.Second))
	enqueue("twice", asynq.MaxRetry(3))
	_, err := client.Enqueue(asynq.NewTask("work", []byte("task-1")), asynq.TaskID("task-1"))
	check(errors.Is(err, asynq.ErrTaskIDConflict), "an id was taken twice: %v", err)
	all := tasks + 2
	completed := func() int {
		sum := 0
		for _, queue := range []string{"urgent", "default"} {
			if info, err := inspector.GetQueueInfo(queue); err == nil {
				sum += info.Completed
			}
		}
		return sum
	}
	until(func() bool { return completed() == all }, func() string { return fmt.Sprintf("%d of %d tasks are completed", completed(), all) })
	lock.Lock()
	defer lock.Unlock()
	check(len(worked) == all, "%d of %d tasks were done", len(worked), all)
	check(worked["twice"] >= 2, "the task that failed was not tried again")
	delete(worked, "twice")
	more := 0
	for _, often := range worked {
		if often > 1 {
			more++
		}
	}
	check(killed || more == 0, "%d tasks were done twice", more)
	ok("%d tasks done, %d more than once%s", all, more, madeAgain())
}
