# fish completion for NAME. To load it: NAME completion fish | source
function __NAME_complete
	set -l words (commandline -opc) "$(commandline -ct)"
	set -l found ($words[1] __complete $words[2..-1] 2>/dev/null)
	if contains :files $found
		__fish_complete_path (commandline -ct)
	else
		printf '%s\n' $found
	end
end
complete -c NAME -f -a '(__NAME_complete)'
