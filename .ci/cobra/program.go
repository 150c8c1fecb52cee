// SPDX-License-Identifier: MIT

package docs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"example.com/mcp"
	"github.com/spf13/cobra"
)

// urgent is shared by all trees, as the variables of many programs are.
var urgent bool

// newRoot returns the commands of a program, with one of each kind that the guide speaks of.
func newRoot() *cobra.Command {
	root := &cobra.Command{Use: "todo", Short: "Keeps a list of tasks", Version: "1.0.0"}
	store := root.PersistentFlags().String("store", "home", "name of the `list`")
	verbose := root.PersistentFlags().CountP("verbose", "v", "how much is printed")

	add := &cobra.Command{Use: "add NAME [NOTE...]", Short: "Adds a task", Long: "Adds a task with notes.", Args: cobra.MinimumNArgs(1)}
	tags := add.Flags().StringSlice("tag", []string{"new"}, "tags")
	lines := add.Flags().StringArray("line", nil, "lines of text")
	days := add.Flags().IntSlice("day", nil, "days of the month")
	priority := add.Flags().Int64("priority", 5, "1 to 9")
	weight := add.Flags().Float32("weight", 0, "in kg")
	due := add.Flags().Duration("due", time.Hour, "how long from now, such as 1h30m")
	labels := add.Flags().StringToString("label", nil, "such as a=b,c=d")
	add.Flags().BoolVarP(&urgent, "urgent", "u", false, "first in the list")
	internal := add.Flags().String("internal", "", "hidden")
	add.Flags().MarkHidden("internal")
	old := add.Flags().String("old", "", "deprecated")
	add.Flags().MarkDeprecated("old", "use tag")
	add.RunE = func(cmd *cobra.Command, args []string) error {
		cmd.Printf("%s %d %q tag=%q line=%q day=%v priority=%d weight=%v due=%v label=%v urgent=%v hidden=%q %q changed=%v\n",
			*store, *verbose, args, *tags, *lines, *days, *priority, *weight, *due, *labels, urgent, *internal, *old, cmd.Flag("priority").Changed)
		return nil
	}

	list := &cobra.Command{Use: "list [flags]", Aliases: []string{"ls"}, Short: "Lists tasks", Args: cobra.NoArgs}
	limit := list.Flags().Int("limit", 10, "at most")
	list.Run = func(cmd *cobra.Command, args []string) { cmd.Println("tasks of", *store, "at most", *limit) }

	show := &cobra.Command{Use: "show NAME", Short: "Shows a task", Args: cobra.ExactArgs(1)}
	show.RunE = func(cmd *cobra.Command, args []string) error {
		return fmt.Errorf("there is no task %q", args[0])
	}

	move := &cobra.Command{Use: "move {up|down}", Short: "Moves a task", Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"up", "down"}}
	move.Run = func(cmd *cobra.Command, args []string) { cmd.Println("moved", args[0]) }

	load := &cobra.Command{Use: "import", Short: "Imports tasks"}
	from := load.Flags().String("from", "", "name of a file")
	load.MarkFlagRequired("from")
	load.Run = func(cmd *cobra.Command, args []string) { cmd.Println("imported", *from) }

	warn := &cobra.Command{Use: "check", Short: "Checks the list"}
	warn.RunE = func(cmd *cobra.Command, args []string) error {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: it is long")
		fmt.Fprintln(cmd.OutOrStdout(), "checked")
		return nil
	}

	fail := &cobra.Command{Use: "sync", Short: "Sends the list"}
	fail.RunE = func(cmd *cobra.Command, args []string) error {
		cmd.PrintErrln("sent 1 of 2")
		return errors.New("the network is down")
	}

	stdout := &cobra.Command{Use: "version", Short: "Prints the version"}
	stdout.Run = func(*cobra.Command, []string) { fmt.Println("1.0.0") }

	exit := &cobra.Command{Use: "quit", Short: "Ends badly"}
	exit.Run = func(cmd *cobra.Command, args []string) {
		fmt.Fprintln(os.Stderr, "no such list")
		os.Exit(3)
	}

	wait := &cobra.Command{Use: "wait", Short: "Waits until it is cancelled"}
	wait.RunE = func(cmd *cobra.Command, args []string) error {
		<-cmd.Context().Done()
		return context.Cause(cmd.Context())
	}

	edit := &cobra.Command{Use: "edit", Short: "Asks for a text"}
	edit.RunE = func(cmd *cobra.Command, args []string) error {
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		cmd.Println("read", line)
		return err
	}

	config := &cobra.Command{Use: "config", Short: "Settings"}
	set := &cobra.Command{Use: "set-value KEY VALUE", Short: "Changes a setting", Args: cobra.ExactArgs(2)}
	set.Run = func(cmd *cobra.Command, args []string) { cmd.Println("set", args) }
	editSetting := &cobra.Command{Use: "edit", Short: "Reads a setting from standard input", RunE: edit.RunE}
	config.AddCommand(set, editSetting)

	remove := &cobra.Command{Use: "remove NAME", Short: "Removes a task", Args: cobra.ExactArgs(1)}
	remove.RunE = func(cmd *cobra.Command, args []string) error {
		if err := mcp.Confirm(cmd.Context(), "Remove "+args[0]+"?"); err != nil {
			return err
		}
		cmd.Println("removed", args[0])
		return nil
	}

	hidden := &cobra.Command{Use: "debug", Hidden: true, Run: stdout.Run}
	deprecated := &cobra.Command{Use: "remind", Deprecated: "use add", Run: stdout.Run}

	serve := &cobra.Command{Use: "mcp", Short: "Serves the other commands as tools", RunE: serveMCP}
	root.AddCommand(add, list, show, move, load, warn, fail, stdout, exit, wait, edit, config, remove, hidden, deprecated, serve)
	return root
}
