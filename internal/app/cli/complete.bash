# bash completion for NAME. To load it: source <(NAME completion bash)
_NAME() {
	local word
	COMPREPLY=()
	while IFS=$'\t' read -r word _; do
		if [ "$word" = :files ]; then
			compopt -o default
		else
			COMPREPLY+=("$word")
		fi
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _NAME NAME
