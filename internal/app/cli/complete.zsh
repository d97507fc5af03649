#compdef NAME
# zsh completion for NAME. To load it: source <(NAME completion zsh), or put it
# into a file _NAME in a folder of fpath.
_NAME() {
	local line
	local -a found
	for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		if [[ $line == :files ]]; then
			_files
			return
		fi
		[[ -z $line ]] || found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done
	_describe NAME found
}
if [ "$funcstack[1]" = _NAME ]; then
	_NAME "$@"
else
	compdef _NAME NAME
fi
